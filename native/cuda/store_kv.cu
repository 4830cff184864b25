// Keys and values to the blocks of their sequences, in the format of the cache.

#include "store_kv.cuh"

namespace svc::cuda {

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
