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

/// The 16 codes of a group of Q2_K and Q3_K: two bits of each of 16 bytes.
struct TwoBits {
  Bytes bytes;
  int shift;

  TwoBits(Bytes qs, int group) : bytes(qs + group / 8 * 32 + group % 2 * 16), shift(group / 2 % 4 * 2) {}
  int at(int i) const { return bytes[i] >> shift & 3; }
};

/// scales [16] (4 bits scale, 4 bits min), qs [64], d, dmin
void widenQ2K(Bytes block, float* out) {
  const float d = half(block + 80), dmin = half(block + 82);
  for (int group = 0; group < 16; ++group, out += 16) {
    const TwoBits codes(block + 16, group);
    const float scale = d * static_cast<float>(block[group] & 15), min = dmin * static_cast<float>(block[group] >> 4);
    for (int i = 0; i < 16; ++i) out[i] = scale * static_cast<float>(codes.at(i)) - min;
  }
}

/// Calls use(group, scale) for the 16 scales of Q3_K: six bits each, in two pieces.
template <class Use>
void eachScaleOfQ3K(Bytes scales, const Use& use) {
  for (int group = 0; group < 16; ++group) {
    const int low = scales[group % 8] >> (group < 8 ? 0 : 4) & 15, high = scales[8 + group % 4] >> group / 4 * 2 & 3;
    use(group, (low | high << 4) - 32);
  }
}

/// Calls put(i, code) for the numbers of a group: hmask [32], qs [64], scales [12], d.
template <class Put>
void eachOfQ3K(Bytes block, int group, const Put& put) {
  const TwoBits codes(block + 32, group);
  const Bytes isAbove = block + group % 2 * 16;
  for (int i = 0; i < 16; ++i) put(group * 16 + i, codes.at(i) - 4 + (isAbove[i] >> group / 2 & 1) * 4);
}

void widenQ3K(Bytes block, float* out) {
  const float d = half(block + 108);
  eachScaleOfQ3K(block + 96, [&](int group, int scale) {
    const float groupScale = d * static_cast<float>(scale);
    eachOfQ3K(block, group, [&](int i, int code) { out[i] = groupScale * static_cast<float>(code); });
  });
}

/// Calls use(group, scale, min) for the 8 groups of Q4_K and Q5_K: twice six bits each, in the twelve bytes behind d and dmin.
template <class Use>
void eachScaleAndMin(Bytes block, const Use& use) {
  const Bytes packed = block + 4;
  for (int group = 0; group < 8; ++group) {
    const int scale = group < 4 ? packed[group] & 63 : (packed[group + 4] & 15) | packed[group - 4] >> 6 << 4;
    const int min = group < 4 ? packed[group + 4] & 63 : packed[group + 4] >> 4 | packed[group] >> 6 << 4;
    use(group, scale, min);
  }
}

/// Calls put(i, code) for the numbers of a group of Q4_K.
template <class Put>
void eachOfQ4K(Bytes block, int group, const Put& put) {
  const Bytes qs = block + 16 + group / 2 * 32;
  for (int i = 0; i < 32; ++i) put(group * 32 + i, qs[i] >> group % 2 * 4 & 15);
}

/// The same of Q5_K: qh [32] before the codes, a bit a group in the byte of each place.
template <class Put>
void eachOfQ5K(Bytes block, int group, const Put& put) {
  const Bytes qh = block + 16, qs = block + 48 + group / 2 * 32;
  for (int i = 0; i < 32; ++i) put(group * 32 + i, (qs[i] >> group % 2 * 4 & 15) | (qh[i] >> group & 1) << 4);
}

/// `eachCode(block, group, put)` gives the codes of a group.
template <class EachCode>
void widenWithMins(Bytes block, float* out, const EachCode& eachCode) {
  const float d = half(block), dmin = half(block + 2);
  eachScaleAndMin(block, [&](int group, int scale, int min) {
    const float groupScale = d * static_cast<float>(scale), groupMin = dmin * static_cast<float>(min);
    eachCode(block, group, [&](int i, int code) { out[i] = groupScale * static_cast<float>(code) - groupMin; });
  });
}

void widenQ4K(Bytes block, float* out) {
  widenWithMins(block, out, [](Bytes of, int group, const auto& put) { eachOfQ4K(of, group, put); });
}

void widenQ5K(Bytes block, float* out) {
  widenWithMins(block, out, [](Bytes of, int group, const auto& put) { eachOfQ5K(of, group, put); });
}

/// Calls put(i, code) for the numbers of a group: ql [128], qh [64], scales [16], d.
template <class Put>
void eachOfQ6K(Bytes block, int group, const Put& put) {
  // Of each 128 numbers the first 64 are in the lower halves of 64 bytes, and each 32 have two bits of 32 more.
  const int inHalf = group % 8;
  const Bytes low = block + group / 8 * 64 + inHalf % 4 * 16, high = block + 128 + group / 8 * 32 + inHalf % 2 * 16;
  const int lowShift = inHalf < 4 ? 0 : 4, highShift = inHalf / 2 * 2;
  for (int i = 0; i < 16; ++i) {
    put(group * 16 + i, ((low[i] >> lowShift & 15) | (high[i] >> highShift & 3) << 4) - 32);
  }
}

void widenQ6K(Bytes block, float* out) {
  const float d = half(block + 208);
  for (int group = 0; group < 16; ++group) {
    const float scale = d * static_cast<float>(static_cast<int8_t>(block[192 + group]));
    eachOfQ6K(block, group, [&](int i, int code) { out[i] = scale * static_cast<float>(code); });
  }
}

/// d, scales_h of 2 bits, scales_l [4] of 4 bits, qs [128]
int iq4XsScale(Bytes block, int group) {
  const int low = block[4 + group / 2] >> group % 2 * 4 & 15, high = (block[2] | block[3] << 8) >> group * 2 & 3;
  return (low | high << 4) - 32;
}

void widenIq4Xs(Bytes block, float* out) {
  const float d = half(block);
  for (int group = 0; group < 8; ++group) {
    const float scale = d * static_cast<float>(iq4XsScale(block, group));
    eachNibble(block + 8 + group * 16, [&](int i, int code) { out[group * 32 + i] = scale * static_cast<float>(kNonlinear[code]); });
  }
}

/// qs [48] of five numbers, qh [4] of four, d: a byte is a fraction of 256, its digits to the base of 3 are the codes, each a number plus 1.
template <class Put>
void eachOfTq1(Bytes block, const Put& put) {
  const auto eachOfBytes = [&](int at, int bytes, int digits, int first) {
    for (int i = 0; i < bytes; ++i) {
      int rest = block[at + i];
      for (int digit = 0; digit < digits; ++digit) {
        const int tripled = 3 * rest;
        put(first + digit * bytes + i, tripled >> 8);
        rest = tripled & 255;
      }
    }
  };
  eachOfBytes(0, 32, 5, 0);
  eachOfBytes(32, 16, 5, 160);
  eachOfBytes(48, 4, 4, 240);
}

/// qs [64], d: of 128 numbers each 32 have two bits of 32 bytes, the first ones the lowest.
template <class Put>
void eachOfTq2(Bytes block, const Put& put) {
  for (int i = 0; i < 256; ++i) put(i, block[i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3);
}

/// qs [32]: the same of 128 numbers, the first ones the highest.
template <class Put>
void eachOfI2S(Bytes block, const Put& put) {
  for (int i = 0; i < 128; ++i) put(i, block[i % 32] >> (6 - i / 32 * 2) & 3);
}

template <class Put>
void eachTernary(DType dtype, Bytes block, const Put& put) {
  switch (dtype) {
    case DType::Tq1_0: return eachOfTq1(block, put);
    case DType::Tq2_0: return eachOfTq2(block, put);
    default: return eachOfI2S(block, put);
  }
}

float scaleOfTernary(DType dtype, Bytes block) { return half(block + (dtype == DType::Tq1_0 ? 52 : 64)); }

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
    case DType::Tq1_0:
    case DType::Tq2_0:
      return widenScaled(scaleOfTernary(dtype, block), out, [&](const auto& put) {
        eachTernary(dtype, block, [&](int i, int code) { put(i, code - 1); });
      });
    default: return;
  }
}

void codesOfBlock(DType dtype, Bytes block, const BlockCodes& out) {
  const auto put = [&](int i, int code) { out.codes[i] = static_cast<uint8_t>(code); };
  const auto putScale = [&](int group, int scale) { out.scaleBytes[group] = static_cast<int8_t>(scale); };
  const auto putScaleAndMin = [&](int group, int scale, int min) {
    putScale(group, scale);
    out.minimumBytes[group] = static_cast<int8_t>(min);
  };
  *out.scales = half(block);
  switch (dtype) {
    case DType::Q4_0:
    case DType::Iq4Nl: return eachNibble(block + 2, put);
    case DType::Q4_1:
      *out.minimums = -half(block + 2);
      return eachNibble(block + 4, put);
    case DType::Q5_0: return eachOf5Bits(block + 2, [&](int i, int code) { put(i, code - 16); });
    case DType::Q5_1:
      *out.minimums = -half(block + 2);
      return eachOf5Bits(block + 4, put);
    case DType::Q8_0: std::memcpy(out.codes, block + 2, 32); return;
    case DType::Mxfp4:
      *out.scales = powerOf2(block[0]);
      return eachNibble(block + 1, put);
    case DType::Q2_K:
      *out.scales = half(block + 80);
      *out.minimums = half(block + 82);
      for (int group = 0; group < 16; ++group) {
        const TwoBits codes(block + 16, group);
        putScaleAndMin(group, block[group] & 15, block[group] >> 4);
        for (int i = 0; i < 16; ++i) put(group * 16 + i, codes.at(i));
      }
      return;
    case DType::Q3_K:
      *out.scales = half(block + 108);
      return eachScaleOfQ3K(block + 96, [&](int group, int scale) {
        putScale(group, scale);
        eachOfQ3K(block, group, [&](int i, int code) { put(i, code + 8); });
      });
    case DType::Q4_K:
    case DType::Q5_K:
      *out.minimums = half(block + 2);
      return eachScaleAndMin(block, [&](int group, int scale, int min) {
        putScaleAndMin(group, scale, min);
        if (dtype == DType::Q4_K) eachOfQ4K(block, group, put);
        else eachOfQ5K(block, group, put);
      });
    case DType::Q6_K:
      *out.scales = half(block + 208);
      for (int group = 0; group < 16; ++group) {
        putScale(group, static_cast<int8_t>(block[192 + group]));
        eachOfQ6K(block, group, put);
      }
      return;
    case DType::Iq4Xs:
      for (int group = 0; group < 8; ++group) {
        putScale(group, iq4XsScale(block, group));
        eachNibble(block + 8 + group * 16, [&](int i, int code) { put(group * 32 + i, code); });
      }
      return;
    case DType::Tq1_0:
    case DType::Tq2_0:
      *out.scales = *out.minimums = scaleOfTernary(dtype, block);
      return eachTernary(dtype, block, put);
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

void readBlockCodes(DType dtype, const char* row, int k, BlockCodes out) {
  const Block block = blockOf(dtype);
  const int groups = block.numbers / codesOfBlocks(dtype).groupSize;
  for (int i = 0; i < k; i += block.numbers, row += block.bytes) {
    codesOfBlock(dtype, reinterpret_cast<Bytes>(row), out);
    out.codes += block.numbers;
    ++out.scales;
    ++out.minimums;
    out.scaleBytes += groups;
    out.minimumBytes += groups;
  }
}

void readWholeRows(const TensorSource& source, int row, int rows, int k, std::vector<char>& blocks, char* to) {
  if (!isTernary(source.dtype)) return source.read(to, row, rows, k);
  const Block block = blockOf(source.dtype);
  blocks.resize(storedBytes(source.dtype, int64_t{rows} * k));
  source.read(blocks.data(), row, rows, k);
  bool isDamaged = false;
  for (const char *from = blocks.data(), *const end = from + blocks.size(); from < end; from += block.bytes, to += block.numbers) {
    eachTernary(source.dtype, reinterpret_cast<Bytes>(from), [&](int i, int code) {
      isDamaged |= code > 2;
      to[i] = static_cast<char>(code - 1);
    });
  }
  if (isDamaged) source.refuseCode();
}

}  // namespace svc::cpu
