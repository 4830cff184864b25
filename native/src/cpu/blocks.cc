// One function a format, for one block; fields of a block are named as in ggml (ggml-common.h). Each number is computed in f32, in
// the order of the definition.

#include "cpu/blocks.h"

#include <bit>
#include <cstring>

namespace svc::cpu {
namespace {

using Bytes = const uint8_t*;

constexpr int kNonlinear[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr int kTwiceE2m1[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

float half(Bytes at) {
  const uint32_t bits = at[0] | at[1] << 8, exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 0) return sign * static_cast<float>(mantissa) * 0x1p-24f;
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return sign * std::bit_cast<float>(wide << 23 | mantissa << 13);
}

/// 2^(exponent - 127): the scale of an MXFP4 block.
float powerOf2(uint8_t exponent) { return std::bit_cast<float>(exponent == 0 ? 0x00400000u : uint32_t{exponent} << 23); }

/// Calls put(i, code) for 32 numbers: the first 16 are in the lower halves of 16 bytes.
template <class Put>
void eachNibble(Bytes qs, const Put& put) {
  for (int i = 0; i < 16; ++i) put(i, qs[i] & 15);
  for (int i = 0; i < 16; ++i) put(i + 16, qs[i] >> 4);
}

/// qh [4], a bit a number, then qs [16].
template <class Put>
void eachOf5Bits(Bytes qh, const Put& put) {
  eachNibble(qh + 4, [&](int i, int low) { put(i, low | (qh[i / 8] >> i % 8 & 1) << 4); });
}

template <class EachCode>
void widenScaled(float d, float* out, const EachCode& eachCode) {
  eachCode([&](int i, int code) { out[i] = d * static_cast<float>(code); });
}

template <class EachCode>
void widenShifted(float d, float m, float* out, const EachCode& eachCode) {
  eachCode([&](int i, int code) { out[i] = d * static_cast<float>(code) + m; });
}

/// scales [16] (4 bits scale, 4 bits min), qs [64], d, dmin
void widenQ2K(Bytes block, float* out) {
  const float d = half(block + 80), dmin = half(block + 82);
  for (int i = 0; i < 256; ++i) {
    const int code = block[16 + i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3;
    const uint8_t scales = block[i / 16];
    out[i] = d * static_cast<float>(scales & 15) * static_cast<float>(code) - dmin * static_cast<float>(scales >> 4);
  }
}

/// Calls put(i, scale, code) for 256 numbers: hmask [32], qs [64], scales [12], d.
template <class Put>
void eachOfQ3K(Bytes block, const Put& put) {
  for (int group = 0; group < 16; ++group) {
    const int low = block[96 + group % 8] >> (group < 8 ? 0 : 4) & 15, high = block[104 + group % 4] >> group / 4 * 2 & 3;
    const int scale = (low | high << 4) - 32;
    for (int i = group * 16; i < (group + 1) * 16; ++i) {
      const int code = block[32 + i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3;
      put(i, scale, code - ((block[i % 32] >> i / 32 & 1) != 0 ? 0 : 4));
    }
  }
}

void widenQ3K(Bytes block, float* out) {
  const float d = half(block + 108);
  eachOfQ3K(block, [&](int i, int scale, int code) { out[i] = d * static_cast<float>(scale) * static_cast<float>(code); });
}

/// d, dmin, scales [12] of 6 bits each; `high` gives the fifth bit of a number.
template <class High>
void widenWithMins(Bytes block, Bytes qs, float* out, const High& high) {
  const float d = half(block), dmin = half(block + 2);
  const Bytes packed = block + 4;
  for (int group = 0; group < 8; ++group) {
    const int scale = group < 4 ? packed[group] & 63 : (packed[group + 4] & 15) | packed[group - 4] >> 6 << 4;
    const int min = group < 4 ? packed[group + 4] & 63 : packed[group + 4] >> 4 | packed[group] >> 6 << 4;
    const float groupScale = d * static_cast<float>(scale), groupMin = dmin * static_cast<float>(min);
    const Bytes codes = qs + group / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      const int code = (codes[i] >> group % 2 * 4 & 15) | high(group, i) << 4;
      out[group * 32 + i] = groupScale * static_cast<float>(code) - groupMin;
    }
  }
}

void widenQ4K(Bytes block, float* out) {
  widenWithMins(block, block + 16, out, [](int, int) { return 0; });
}

/// qh [32] before the codes: a bit a group in the byte of each place.
void widenQ5K(Bytes block, float* out) {
  widenWithMins(block, block + 48, out, [block](int group, int i) { return block[16 + i] >> group & 1; });
}

/// ql [128], qh [64], scales [16], d
void widenQ6K(Bytes block, float* out) {
  const float d = half(block + 208);
  for (int i = 0; i < 256; ++i) {
    const int low = block[i / 128 * 64 + i % 64] >> (i % 128 < 64 ? 0 : 4) & 15;
    const int high = block[128 + i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
    const auto scale = static_cast<int8_t>(block[192 + i / 16]);
    out[i] = d * static_cast<float>(scale) * static_cast<float>((low | high << 4) - 32);
  }
}

/// d, scales_h of 2 bits, scales_l [4] of 4 bits, qs [128]
float iq4XsScale(Bytes block, int group) {
  const int low = block[4 + group / 2] >> group % 2 * 4 & 15, high = (block[2] | block[3] << 8) >> group * 2 & 3;
  return half(block) * static_cast<float>((low | high << 4) - 32);
}

void widenIq4Xs(Bytes block, float* out) {
  for (int group = 0; group < 8; ++group) {
    const float scale = iq4XsScale(block, group);
    eachNibble(block + 8 + group * 16, [&](int i, int code) { out[group * 32 + i] = scale * static_cast<float>(kNonlinear[code]); });
  }
}

void widenBlock(DType dtype, Bytes block, float* out) {
  const auto nibbles = [block](int at) { return [=](const auto& put) { eachNibble(block + at, put); }; };
  const auto fiveBits = [block](int at) { return [=](const auto& put) { eachOf5Bits(block + at, put); }; };
  switch (dtype) {
    case DType::Q4_0:
      return widenScaled(half(block), out, [&](const auto& put) {
        eachNibble(block + 2, [&](int i, int code) { put(i, code - 8); });
      });
    case DType::Q4_1: return widenShifted(half(block), half(block + 2), out, nibbles(4));
    case DType::Q5_0:
      return widenScaled(half(block), out, [&](const auto& put) {
        eachOf5Bits(block + 2, [&](int i, int code) { put(i, code - 16); });
      });
    case DType::Q5_1: return widenShifted(half(block), half(block + 2), out, fiveBits(4));
    case DType::Q8_0:
      return widenScaled(half(block), out, [&](const auto& put) {
        for (int i = 0; i < 32; ++i) put(i, static_cast<int8_t>(block[2 + i]));
      });
    case DType::Iq4Nl:
      return widenScaled(half(block), out, [&](const auto& put) {
        eachNibble(block + 2, [&](int i, int code) { put(i, kNonlinear[code]); });
      });
    case DType::Mxfp4:
      return widenScaled(powerOf2(block[0]) * 0.5f, out, [&](const auto& put) {
        eachNibble(block + 1, [&](int i, int code) { put(i, kTwiceE2m1[code]); });
      });
    case DType::Q2_K: return widenQ2K(block, out);
    case DType::Q3_K: return widenQ3K(block, out);
    case DType::Q4_K: return widenQ4K(block, out);
    case DType::Q5_K: return widenQ5K(block, out);
    case DType::Q6_K: return widenQ6K(block, out);
    case DType::Iq4Xs: return widenIq4Xs(block, out);
    default: return;
  }
}

/// Codes of one block, and its scales: one, but of Iq4Xs eight.
void codesOfBlock(DType dtype, Bytes block, uint8_t* codes, float* scales) {
  const auto put = [codes](int i, int code) { codes[i] = static_cast<uint8_t>(code); };
  const auto putValue = [codes](int i, int code) { codes[i] = static_cast<uint8_t>(kNonlinear[code]); };
  *scales = half(block);
  switch (dtype) {
    case DType::Q4_0: return eachNibble(block + 2, put);
    case DType::Q5_0: return eachOf5Bits(block + 2, [&](int i, int code) { put(i, code - 16); });
    case DType::Q8_0: std::memcpy(codes, block + 2, 32); return;
    case DType::Iq4Nl: return eachNibble(block + 2, putValue);
    case DType::Iq4Xs:
      for (int group = 0; group < 8; ++group) {
        scales[group] = iq4XsScale(block, group);
        eachNibble(block + 8 + group * 16, [&](int i, int code) { putValue(group * 32 + i, code); });
      }
      return;
    case DType::Q3_K:
      // Scale times code is from -124 to 128, one more than a code can be: so the other way round.
      *scales = -half(block + 108);
      return eachOfQ3K(block, [&](int i, int scale, int code) { put(i, -scale * code); });
    case DType::Mxfp4:
      *scales = powerOf2(block[0]);
      return eachNibble(block + 1, put);
    default: return;
  }
}

}  // namespace

void widenStored(const KernelSet& set, DType dtype, const char* in, float* out, int64_t count) {
  if (!isBlocks(dtype)) return set.widen[static_cast<int>(dtype)](in, out, count);
  const Block block = blockOf(dtype);
  for (int64_t i = 0; i < count; i += block.numbers, in += block.bytes) {
    widenBlock(dtype, reinterpret_cast<Bytes>(in), out + i);
  }
}

void readBlockCodes(DType dtype, const char* row, int k, uint8_t* codes, float* scales) {
  const Block block = blockOf(dtype);
  const int groups = block.numbers / codesOfBlocks(dtype).groupSize;
  for (int i = 0; i < k; i += block.numbers, row += block.bytes, scales += groups) {
    codesOfBlock(dtype, reinterpret_cast<Bytes>(row), codes + i, scales);
  }
}

}  // namespace svc::cpu
