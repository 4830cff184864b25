// Rows of numbers as whole numbers and one scale, as svc::cpu::KernelSet::quantize defines them.
#pragma once

#include "math.cuh"

namespace svc::cuda {

struct Quantization {
  float scale, inverse;

  /// By the bits of the largest |x| of a row: infinity is larger than all that is finite, and NaN larger still.
  __device__ explicit Quantization(int largestBits) {
    constexpr float kMost = 127.0f, kLeastNormal = 0x1p-126f;
    const float size = bitsAs<float>(largestBits);
    const bool isFinite = largestBits < 0x7f800000, isZero = size < kMost * kLeastNormal;
    inverse = isFinite && !isZero ? kMost / size : 0.0f;
    scale = !isFinite ? bitsAs<float>(0x7fc00000) : isZero ? 0.0f : size / kMost;
  }

  /// From -127 to 127; 0 in a row that has no scale.
  __device__ int8_t code(float x) const { return inverse == 0.0f ? int8_t{0} : static_cast<int8_t>(nearest(x * inverse)); }
};

}  // namespace svc::cuda
