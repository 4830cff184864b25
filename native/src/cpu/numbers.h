// Number formats and the sizes that all instruction sets agree on. No function here may compile differently under
// another instruction set's flags: plain integers only.
#pragma once

#include <cstddef>
#include <cstdint>

namespace svc::cpu {

enum class DType : int { F32 = 0, Bf16 = 1, F16 = 2 };

/// Columns of a weight panel, tokens of a KV tile, lanes of a vector.
constexpr int kLanes = 16;
/// Rows of bf16 activations are padded with zeros to this many columns: a matrix tile is 16 pairs deep.
constexpr int kBf16Depth = 32;
/// Bytes that one step (a pair of bf16 columns, or one f32 column) of one panel takes.
constexpr int kStepBytes = 64;

constexpr size_t elementBytes(DType dtype) { return dtype == DType::F32 ? 4 : 2; }
constexpr int64_t roundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

/// Steps of the sum over k: each multiplies one 32-bit word of x with one 64-byte vector of a panel.
constexpr int stepsOf(DType dtype, int k) {
  return static_cast<int>(dtype == DType::F32 ? k : roundUp(k, kBf16Depth) / 2);
}

}  // namespace svc::cpu
