// Floats as numbers of 16 bits, in the format that the kernels have of them.
#pragma once

#include <algorithm>
#include <bit>

#include "cpu/kernels.h"

namespace svc::cuda {

/// The nearest f16, ties to even; infinite where it is too large.
inline uint16_t toF16(float value) {
  constexpr uint32_t kInfinity = 0x7f800000, kLeastNormal = 0x38800000, kF16Infinity = 0x7c00, kF16Nan = 0x7e00;
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t size = bits & 0x7fffffff, sign = bits >> 16 & 0x8000;
  if (size > kInfinity) return static_cast<uint16_t>(sign | kF16Nan);
  if (size < kLeastNormal) {
    // Multiples of 2^-24: the sum has no room for a fraction.
    const float sum = std::bit_cast<float>(size) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(sum) - std::bit_cast<uint32_t>(0.5f)));
  }
  // Of 23 bits of the fraction ten stay, of the exponent 112 is taken; a carry goes from the one into the other.
  const uint32_t code = ((size + 0xfff + (size >> 13 & 1)) >> 13) - (112 << 10);
  return static_cast<uint16_t>(sign | std::min(code, kF16Infinity));
}

/// `format` is Bf16 or F16.
inline void toHalves(const cpu::KernelSet& conversions, DType format, const float* from, uint16_t* to, int64_t count) {
  if (format == DType::Bf16) conversions.narrow(from, to, count);
  else std::transform(from, from + count, to, toF16);
}

}  // namespace svc::cuda
