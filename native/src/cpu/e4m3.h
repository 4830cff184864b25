// e4m3, the 8-bit float of weights and of keys and values: four bits of exponent, three of mantissa, no infinity.
// "FP8 Formats for Deep Learning" (Micikevicius et al., 2022).
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace svc::cpu {

constexpr float kE4m3Most = 448.0f;
constexpr uint8_t kE4m3Nan = 0x7f;

/// The nearest code, ties to even; what is too large becomes the largest number, and what is not finite NaN.
inline uint8_t toE4m3(float x) {
  constexpr uint32_t kInfinity = 0x7f800000, kLeastNormal = 0x3c800000, kMost = 0x7e;
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t size = bits & 0x7fffffff, sign = (bits >> 24) & 0x80;
  uint32_t code = kE4m3Nan;
  if (size < kLeastNormal) {
    // Multiples of 2^-9: the sum has no room for a fraction.
    constexpr float kWhole = 0x1p23f;
    code = std::bit_cast<uint32_t>(std::bit_cast<float>(size) * 512.0f + kWhole) - std::bit_cast<uint32_t>(kWhole);
  } else if (size < kInfinity) {
    // Of 23 bits of the fraction three stay, of the exponent 120 is taken; a carry goes from the one into the other.
    code = std::min(((size + 0x7ffff + ((size >> 20) & 1)) >> 20) - (120 << 3), kMost);
  }
  return static_cast<uint8_t>(sign | code);
}

/// The number of a code that is not NaN.
inline float fromE4m3(uint8_t code) {
  const int exponent = code >> 3 & 15, eighths = code & 7;
  const float size = std::ldexp(static_cast<float>(exponent == 0 ? eighths : 8 + eighths), std::max(exponent, 1) - 10);
  return (code & 0x80) != 0 ? -size : size;
}

}  // namespace svc::cpu
