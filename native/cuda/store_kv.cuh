// How a number of a key or a value is kept.
#pragma once

#include "kv.cuh"
#include "quantization.cuh"

namespace svc::cuda {

/// The nearest code of e4m3, ties to even; what is too large becomes the largest number, and what is not finite NaN.
__device__ __forceinline__ uint8_t toE4m3(float x) {
  constexpr uint32_t kInfinityBits = 0x7f800000, kLeastNormal = 0x3c800000, kMost = 0x7e, kNan = 0x7f;
  const auto bits = bitsAs<uint32_t>(x);
  const uint32_t size = bits & 0x7fffffff, sign = bits >> 24 & 0x80;
  uint32_t code = kNan;
  if (size < kLeastNormal) {
    // Multiples of 2^-9: the sum has no room for a fraction.
    code = bitsAs<uint32_t>(bitsAs<float>(size) * 512.0f + kWholeOrigin) - kWholeBits;
  } else if (size < kInfinityBits) {
    // Of 23 bits of the fraction three stay, of the exponent 120 is taken; a carry goes from the one into the other.
    code = (size + 0x7ffff + (size >> 20 & 1)) >> 20;
    code = code - (120 << 3) < kMost ? code - (120 << 3) : kMost;
  }
  return static_cast<uint8_t>(sign | code);
}

/// In a form other than Int8, whose numbers have a scale.
__device__ __forceinline__ void keep(const KvRow& kv, const KvPlace& place, int i, float value) {
  if (kv.form == KvForm::F32) reinterpret_cast<float*>(place.numbers)[i] = value;
  else if (kv.form == KvForm::Half) reinterpret_cast<uint16_t*>(place.numbers)[i] = floatToHalf(value);
  else reinterpret_cast<uint8_t*>(place.numbers)[i] = toE4m3(value);
}

}  // namespace svc::cuda
