// Number formats, and how rows of numbers are padded. Instruction sets include this too, each under flags of its own: no
// function here may compile differently under them, so plain integers only.
#pragma once

#include <cstddef>
#include <cstdint>

namespace svc {

/// All after F16 are formats of files only: I8, U8 (bytes that hold codes), and the blocks of GGUF under their names there. Those of I2_S
/// have no scale, but numbers from -1 to 1.
enum class DType : int {
  F32 = 0, Bf16 = 1, F16 = 2, I8 = 3, U8 = 4,
  Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, Iq4Nl, Iq4Xs, Mxfp4, Tq1_0, Tq2_0, I2_S
};

/// Whether numbers have 16 bits. Each backend computes with halves of one format: `Backend::half`.
constexpr bool isHalf(DType dtype) { return dtype == DType::Bf16 || dtype == DType::F16; }

/// Rows of halves are padded with zeros to this many columns: a matrix tile is 16 pairs deep.
constexpr int kHalfDepth = 32;
constexpr int kMostRanks = 8;
/// Groups of experts whose outputs are added as a binary tree, a part of it by each rank: group g of `experts` has the ids from here up to that of g + 1.
constexpr int kExpertGroups = 8;
constexpr int firstOfGroup(int experts, int group) { return experts * group / kExpertGroups; }
/// Some ops write rows of f32 in whole vectors of this many columns; each of them says so.
constexpr int kF32Vector = 16;

/// How the numbers of a weight are kept. Half: in the format of the backend's halves. Int8: whole numbers from -127 to 127, times one
/// scale for each column of the output; a product then quantises each row of its input in the same way. Codes: see CodeFormat. Ternary: as
/// Int8, of numbers from -1 to 1.
enum class WeightFormat : int { F32 = 0, Half = 1, Int8 = 2, Codes = 3, Ternary = 4 };
constexpr int kWeightFormats = 5;

/// Whether products quantise their input, and their sums are whole numbers.
constexpr bool isWhole(WeightFormat format) { return format == WeightFormat::Int8 || format == WeightFormat::Ternary; }

/// What a code means. Of 8 bits: Int8, signed; Fp8, e4m3. Of 4 bits: Int4, the code less 8; Uint4, the code; Fp4, e2m1; Iq4, the
/// values of the IQ4 formats of GGUF. Of others: Uint2 and Uint5, the code; Int3, the code less 4; Int5, less 16; Int6, less 32.
enum class CodeKind : int { Int8 = 0, Fp8 = 1, Int4 = 2, Uint4 = 3, Fp4 = 4, Iq4 = 5, Uint2 = 6, Int3 = 7, Int5 = 8, Uint5 = 9, Int6 = 10 };

constexpr int codeBits(CodeKind kind) {
  switch (kind) {
    case CodeKind::Int8:
    case CodeKind::Fp8: return 8;
    case CodeKind::Int6: return 6;
    case CodeKind::Int5:
    case CodeKind::Uint5: return 5;
    case CodeKind::Int3: return 3;
    case CodeKind::Uint2: return 2;
    default: return 4;
  }
}

/// How much more a code of a whole number is than it means.
constexpr int shiftOf(CodeKind kind) {
  switch (kind) {
    case CodeKind::Int3: return 4;
    case CodeKind::Int4: return 8;
    case CodeKind::Int5: return 16;
    case CodeKind::Int6: return 32;
    default: return 0;
  }
}

/// What a group of codes has beside its scale. Zero: in units of the meanings, Minimum: in those of the numbers.
enum class CodeOffset : int { None = 0, Zero = 1, Minimum = 2 };

/// Codes that encode halves: each is half((meaning of its code - zero) * scale), or half(meaning * scale - minimum),
/// computed in f32, a rounding a step; products may leave out the rounding to a half. `groupSize` numbers
/// along k have a scale in common, and a zero or minimum where there are such: 16, or a multiple of 32.
struct CodeFormat {
  CodeKind kind;
  int groupSize;
  CodeOffset offset;
  /// Whether a scale, or minimum, is a signed byte times a float that all groups of a super-block have in common; k is then whole
  /// super-blocks.
  bool hasByteScales;

  bool operator==(const CodeFormat&) const = default;
};

constexpr int kSuperBlock = 256;

/// The codes of 4 or 8 bits that hold the numbers of blocks without loss.
constexpr CodeFormat codesOfBlocks(DType dtype) {
  switch (dtype) {
    case DType::Q4_0: return {CodeKind::Int4, 32, CodeOffset::None, false};
    case DType::Q4_1: return {CodeKind::Uint4, 32, CodeOffset::Minimum, false};
    case DType::Q5_1: return {CodeKind::Int8, 32, CodeOffset::Minimum, false};
    case DType::Q2_K: return {CodeKind::Uint4, 16, CodeOffset::Minimum, true};
    case DType::Q3_K: return {CodeKind::Int4, 16, CodeOffset::None, true};
    case DType::Q4_K: return {CodeKind::Uint4, 32, CodeOffset::Minimum, true};
    case DType::Q5_K: return {CodeKind::Int8, 32, CodeOffset::Minimum, true};
    case DType::Q6_K: return {CodeKind::Int8, 16, CodeOffset::None, true};
    case DType::Iq4Nl: return {CodeKind::Iq4, 32, CodeOffset::None, false};
    case DType::Iq4Xs: return {CodeKind::Iq4, 32, CodeOffset::None, true};
    case DType::Mxfp4: return {CodeKind::Fp4, 32, CodeOffset::None, false};
    case DType::Tq1_0:
    case DType::Tq2_0: return {CodeKind::Uint4, 256, CodeOffset::Minimum, false};
    default: return {CodeKind::Int8, 32, CodeOffset::None, false};
  }
}

/// The codes of as many bits as the blocks have.
constexpr CodeKind narrowestKind(DType dtype) {
  switch (dtype) {
    case DType::Q5_0: return CodeKind::Int5;
    case DType::Q5_1:
    case DType::Q5_K: return CodeKind::Uint5;
    case DType::Q2_K:
    case DType::Tq1_0:
    case DType::Tq2_0: return CodeKind::Uint2;
    case DType::Q3_K: return CodeKind::Int3;
    case DType::Q6_K: return CodeKind::Int6;
    default: return codesOfBlocks(dtype).kind;
  }
}

/// `codes` is that of Codes.
struct WeightForm {
  WeightFormat format;
  CodeFormat codes;
};

/// How keys and values are kept: Half in the format of the backend's halves, Fp8 as e4m3, Int8 as whole numbers from -127 to 127 times one
/// scale for each token and head.
enum class KvFormat : int { F32 = 0, Half = 1, Fp8 = 2, Int8 = 3 };

constexpr size_t elementBytes(KvFormat format) {
  return format == KvFormat::F32 ? 4 : format == KvFormat::Half ? 2 : 1;
}

/// The format that attention computes with, and of its output.
constexpr DType attentionDType(KvFormat format, DType half) { return format == KvFormat::F32 ? DType::F32 : half; }

/// The format of the activations that a weight is multiplied with.
constexpr DType inputDType(WeightFormat format, DType half) { return format == WeightFormat::F32 ? DType::F32 : half; }

/// Numbers that are stored together, and the bytes that they take.
struct Block {
  int numbers, bytes;
};

constexpr Block blockOf(DType dtype) {
  switch (dtype) {
    case DType::F32: return {1, 4};
    case DType::Bf16:
    case DType::F16: return {1, 2};
    case DType::I8:
    case DType::U8: return {1, 1};
    case DType::Q4_0:
    case DType::Iq4Nl: return {32, 18};
    case DType::Q4_1: return {32, 20};
    case DType::Q5_0: return {32, 22};
    case DType::Q5_1: return {32, 24};
    case DType::Q8_0: return {32, 34};
    case DType::Q2_K: return {256, 84};
    case DType::Q3_K: return {256, 110};
    case DType::Q4_K: return {256, 144};
    case DType::Q5_K: return {256, 176};
    case DType::Q6_K: return {256, 210};
    case DType::Iq4Xs: return {256, 136};
    case DType::Mxfp4: return {32, 17};
    case DType::Tq1_0: return {256, 54};
    case DType::Tq2_0: return {256, 66};
    case DType::I2_S: return {128, 32};
  }
  return {1, 0};
}

constexpr bool isBlocks(DType dtype) { return blockOf(dtype).numbers > 1; }

/// Whether blocks hold numbers from -1 to 1, times the scale that a block may have.
constexpr bool isTernary(DType dtype) { return dtype == DType::Tq1_0 || dtype == DType::Tq2_0 || dtype == DType::I2_S; }

/// Bytes of `count` numbers, whole blocks of them.
constexpr size_t storedBytes(DType dtype, int64_t count) {
  const Block block = blockOf(dtype);
  return static_cast<size_t>(count / block.numbers) * block.bytes;
}

constexpr size_t elementBytes(DType dtype) { return dtype == DType::F32 ? 4 : dtype == DType::I8 || dtype == DType::U8 ? 1 : 2; }
constexpr int64_t roundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

/// Columns of a row with its zeros: an op may write, and a product may read, this many columns of a row of `cols`.
constexpr int64_t paddedCols(DType dtype, int64_t cols) { return isHalf(dtype) ? roundUp(cols, kHalfDepth) : cols; }

/// Most streams that are mixed, and that come of it.
constexpr int kMostStreams = 8;

}  // namespace svc
