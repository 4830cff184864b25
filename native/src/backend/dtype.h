// Number formats, and how rows of numbers are padded. Instruction sets include this too, each under flags of its own: no
// function here may compile differently under them, so plain integers only.
#pragma once

#include <cstddef>
#include <cstdint>

namespace svc {

/// I8 and U8 (bytes that hold codes) are formats of files only.
enum class DType : int { F32 = 0, Bf16 = 1, F16 = 2, I8 = 3, U8 = 4 };

/// Rows of bf16 activations are padded with zeros to this many columns: a matrix tile is 16 pairs deep.
constexpr int kBf16Depth = 32;
/// Some ops write rows of f32 in whole vectors of this many columns; each of them says so.
constexpr int kF32Vector = 16;

/// How the numbers of a weight are kept. Int8: whole numbers from -127 to 127, times one scale for each column of the
/// output; a product then quantises each row of its input in the same way. Codes: see CodeFormat.
enum class WeightFormat : int { F32 = 0, Bf16 = 1, Int8 = 2, Codes = 3 };

/// What a code means. Of 4 bits: Int4, the code less 8; Fp4, e2m1. Of 8 bits: Int8, signed; Fp8, e4m3.
enum class CodeKind : int { Int4 = 0, Fp4 = 1, Int8 = 2, Fp8 = 3 };

constexpr int codeBits(CodeKind kind) { return kind == CodeKind::Int4 || kind == CodeKind::Fp4 ? 4 : 8; }

/// Codes that encode numbers of bf16: each is bf16((meaning of its code - zero) * scale), computed in f32. `groupSize`
/// numbers along k, a multiple of 32, have a scale in common, and a zero where there are zeros.
struct CodeFormat {
  CodeKind kind;
  int groupSize;
  bool hasZeros;
};

/// `codes` is that of Codes.
struct WeightForm {
  WeightFormat format;
  CodeFormat codes;
};

/// How keys and values are kept: Fp8 as e4m3, Int8 as whole numbers from -127 to 127 times one scale for each token and head.
enum class KvFormat : int { F32 = 0, Bf16 = 1, Fp8 = 2, Int8 = 3 };

constexpr size_t elementBytes(KvFormat format) {
  return format == KvFormat::F32 ? 4 : format == KvFormat::Bf16 ? 2 : 1;
}

/// The format that attention computes with, and of its output.
constexpr DType attentionDType(KvFormat format) { return format == KvFormat::F32 ? DType::F32 : DType::Bf16; }

/// The format of the activations that a weight is multiplied with.
constexpr DType inputDType(WeightFormat format) { return format == WeightFormat::F32 ? DType::F32 : DType::Bf16; }

constexpr size_t elementBytes(DType dtype) { return dtype == DType::F32 ? 4 : dtype == DType::I8 || dtype == DType::U8 ? 1 : 2; }
constexpr int64_t roundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

/// Columns of a row with its zeros: an op may write, and a product may read, this many columns of a row of `cols`.
constexpr int64_t paddedCols(DType dtype, int64_t cols) { return dtype == DType::Bf16 ? roundUp(cols, kBf16Depth) : cols; }

}  // namespace svc
