// Numbers of codes: what a code means, and pieces of 16 of a row that come to shared memory as codes and become halves there. Each step is
// exact but for the two or three that the definition rounds, so a weight has the bits of the numbers that it encodes.
#pragma once

#include "device.cuh"

namespace svc::cuda {

/// A float of a whole number below 2^23, given as its bits.
constexpr uint32_t kWholeBits = 0x4b000000;
constexpr float kWholeOrigin = 8388608.0f;

/// e4m3, by the exponent of a float: numbers below its normal ones are so too. The code of NaN is no number.
__device__ __forceinline__ float fromE4m3(uint32_t code) {
  const uint32_t size = code & 0x7f;
  const float number = bitsAs<float>((code & 0x80) << 24 | size << 20) * 0x1p120f;
  return size == 0x7f ? bitsAs<float>(0x7fc00000u) : number;
}

__device__ __forceinline__ float fromIq4(uint32_t code) {
  // -127, -104, -83, -65, -49, -35, -22, -10 and 1, 13, 25, 38, 53, 69, 89, 113, with 128 added.
  constexpr uint64_t kLow = 0x766a5d4f3f2d1801, kHigh = 0xf1d9c5b5a6998d81;
  const auto byte = static_cast<uint32_t>((code < 8 ? kLow : kHigh) >> (code & 7) * 8) & 0xff;
  return bitsAs<float>(kWholeBits | byte) - (kWholeOrigin + 128.0f);
}

template <Meaning kMeaning>
__device__ __forceinline__ float meaningOf(uint32_t code) {
  if constexpr (kMeaning == Meaning::Int8) return bitsAs<float>(kWholeBits | (code ^ 0x80)) - (kWholeOrigin + 128.0f);
  else if constexpr (kMeaning == Meaning::Fp8) return fromE4m3(code);
  else if constexpr (kMeaning == Meaning::Int4) return bitsAs<float>(kWholeBits | code) - (kWholeOrigin + 8.0f);
  else if constexpr (kMeaning == Meaning::Uint4) return bitsAs<float>(kWholeBits | code) - kWholeOrigin;
  else if constexpr (kMeaning == Meaning::Fp4) return bitsAs<float>((code & 8) << 28 | (code & 7) << 22) * 0x1p126f;
  else return fromIq4(code);
}

template <Meaning kMeaning>
constexpr bool kHas4Bits = kMeaning != Meaning::Int8 && kMeaning != Meaning::Fp8;

struct alignas(16) Piece {
  uint32_t words[4];
};

/// What the numbers of a group have in common.
struct Factors {
  float scale, zero, minimum;
};

/// `beside` of a piece of 16 numbers: scale, bytes of scales, zero or minimum, bytes of minimums.
__device__ __forceinline__ Factors factorsOf(const CodedWeight& codes, const Piece& beside, int group) {
  const auto byteOf = [group](uint32_t word) { return static_cast<float>(static_cast<int8_t>(word >> group % 4 * 8 & 0xff)); };
  float scale = bitsAs<float>(beside.words[0]), offset = bitsAs<float>(beside.words[2]);
  if (codes.scaleBytes != 0) scale = byteOf(beside.words[1]) * scale;
  if (codes.offsetBytes != 0) offset = byteOf(beside.words[3]) * offset;
  return codes.hasMinimums ? Factors{scale, 0.0f, offset} : Factors{scale, offset, 0.0f};
}

template <Meaning kMeaning>
__device__ __forceinline__ float numberOf(uint32_t code, const Factors& factors) {
  return (meaningOf<kMeaning>(code) - factors.zero) * factors.scale - factors.minimum;
}

/// The 16 numbers of a piece as two pieces of halves.
template <Meaning kMeaning>
__device__ __forceinline__ void expandPiece(const Piece& codes, const Factors& factors, Piece (&out)[2]) {
  constexpr int kBits = kHas4Bits<kMeaning> ? 4 : 8, kPerWord = 32 / kBits;
  const auto number = [&](int i) {
    return numberOf<kMeaning>(codes.words[i / kPerWord] >> i % kPerWord * kBits & ((1u << kBits) - 1), factors);
  };
#pragma unroll
  for (int i = 0; i < 16; i += 2) out[i / 8].words[i % 8 / 2] = packHalves(number(i), number(i + 1));
}

/// Calls use.template operator()<meaning>() with that of the weight.
template <class Use>
__device__ __forceinline__ void withMeaning(Meaning meaning, const Use& use) {
  switch (meaning) {
    case Meaning::Int8: return use.template operator()<Meaning::Int8>();
    case Meaning::Fp8: return use.template operator()<Meaning::Fp8>();
    case Meaning::Int4: return use.template operator()<Meaning::Int4>();
    case Meaning::Uint4: return use.template operator()<Meaning::Uint4>();
    case Meaning::Fp4: return use.template operator()<Meaning::Fp4>();
    case Meaning::Iq4: return use.template operator()<Meaning::Iq4>();
  }
}

/// Where the parts of a piece of 16 numbers are: that of `column` of row `ofWeight`.
struct CodePlace {
  const char* panel;
  int row, column, group, header;

  __device__ CodePlace(const CodedWeight& codes, int ofWeight, int ofRow)
      : panel(codes.panels + ofWeight / kPanelRows * codes.panelBytes),
        row(ofWeight % kPanelRows),
        column(ofRow),
        group(ofRow / codes.groupSize),
        header(codes.scaleBytes != 0 ? ofRow / kSuperBlock : group) {}

  __device__ const char* codes(int pieceBytes) const { return panel + (column / 16 * kPanelRows + row) * pieceBytes; }
  /// Of the words that begin at `first`, that of the header, or of four groups.
  __device__ const char* ofHeader(int first) const { return panel + first + (header * kPanelRows + row) * 4; }
  __device__ const char* ofGroups(int first) const { return panel + first + (group / 4 * kPanelRows + row) * 4; }
};

__device__ __forceinline__ bool has4Bits(Meaning meaning) { return meaning != Meaning::Int8 && meaning != Meaning::Fp8; }

/// Begins to copy a piece of 16 numbers to where its numbers will be: codes to the first 16 bytes, what is beside them to the second.
__device__ __forceinline__ void copyPiece(const CodedWeight& codes, const CodePlace& at, void* first, void* second) {
  if (has4Bits(codes.meaning)) copyAsync<8>(first, at.codes(8), 8);
  else copyAsync16(first, at.codes(16), 16);
  auto* const words = static_cast<uint32_t*>(second);
  copyAsync<4>(words, at.ofHeader(codes.scales), 4);
  if (codes.scaleBytes != 0) copyAsync<4>(words + 1, at.ofGroups(codes.scaleBytes), 4);
  copyAsync<4>(words + 2, at.ofHeader(codes.offsets), codes.offsets != 0 ? 4 : 0);
  if (codes.offsetBytes != 0) copyAsync<4>(words + 3, at.ofGroups(codes.offsetBytes), 4);
}

/// One number of the weight, in f32.
__device__ inline float numberAt(const CodedWeight& codes, int row, int column) {
  const CodePlace at(codes, row, column);
  const auto wordAt = [](const char* from) { return *reinterpret_cast<const uint32_t*>(from); };
  Piece beside{};
  beside.words[0] = wordAt(at.ofHeader(codes.scales));
  if (codes.scaleBytes != 0) beside.words[1] = wordAt(at.ofGroups(codes.scaleBytes));
  if (codes.offsets != 0) beside.words[2] = wordAt(at.ofHeader(codes.offsets));
  if (codes.offsetBytes != 0) beside.words[3] = wordAt(at.ofGroups(codes.offsetBytes));
  const Factors factors = factorsOf(codes, beside, at.group);
  float number = 0.0f;
  withMeaning(codes.meaning, [&]<Meaning kMeaning>() {
    constexpr int kBits = kHas4Bits<kMeaning> ? 4 : 8;
    const int in = column % 16 * kBits;
    const auto byte = static_cast<uint8_t>(at.codes(2 * kBits)[in / 8]);
    number = numberOf<kMeaning>(byte >> in % 8 & ((1u << kBits) - 1), factors);
  });
  return halfToFloat(floatToHalf(number));
}

}  // namespace svc::cuda
