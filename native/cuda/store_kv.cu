// Keys and values to the blocks of their sequences, in the format of the cache.

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

__device__ __forceinline__ void keep(const KvRow& kv, const KvPlace& place, int i, float value) {
  if (kv.form == KvForm::F32) reinterpret_cast<float*>(place.numbers)[i] = value;
  else if (kv.form == KvForm::Bf16) reinterpret_cast<uint16_t*>(place.numbers)[i] = floatToBf16(value);
  else reinterpret_cast<uint8_t*>(place.numbers)[i] = toE4m3(value);
}

SVC_KERNEL(svcStoreKv, StoreKvParams, kRowThreads) {
  const int row = static_cast<int>(blockIdx.x), i = static_cast<int>(blockIdx.y) * kRowThreads + thread();
  const KvRow& kv = p.kv;
  if (i >= kv.kvHeads * kv.headDim) return;
  const int head = i / kv.headDim, slot = p.slots[row];
  if (slot < 0) return;
  const int block = slot / kv.blockSize, offset = slot % kv.blockSize;
  keep(kv, KvPlace(kv, block, 0, head, offset), i % kv.headDim, p.k[row * p.kStride + i]);
  if (!kv.keysAreValues) keep(kv, KvPlace(kv, block, 1, head, offset), i % kv.headDim, p.v[row * p.vStride + i]);
}

/// A warp has the key or the value of one head: whole numbers and a scale.
SVC_KERNEL(svcStoreInt8Kv, StoreKvParams, kWarp) {
  const KvRow& kv = p.kv;
  const int row = static_cast<int>(blockIdx.x), slot = p.slots[row];
  if (slot < 0) return;
  const int kind = static_cast<int>(blockIdx.y) / kv.kvHeads, head = static_cast<int>(blockIdx.y) % kv.kvHeads;
  const float* x = (kind == 0 ? p.k + row * p.kStride : p.v + row * p.vStride) + int64_t{head} * kv.headDim;
  const KvPlace place(kv, slot / kv.blockSize, kind, head, slot % kv.blockSize);
  int bits = 0;
  for (int i = lane(); i < kv.headDim; i += kWarp) bits = Max()(bits, bitsAs<int>(x[i]) & 0x7fffffff);
  const Quantization how(reduceWarp(bits, Max()));
  for (int i = lane(); i < kv.headDim; i += kWarp) reinterpret_cast<int8_t*>(place.numbers)[i] = how.code(x[i]);
  if (lane() == 0) *place.scale = how.scale;
}

}  // namespace svc::cuda
