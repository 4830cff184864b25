// Layer blocks of KV memory on their way from GPU to GPU: copied and summed in one pass over their bytes.

#include "device.cuh"

namespace svc::cuda {

/// A thread's numbers come from 16 bytes at once.
struct alignas(16) LongPair {
  uint64_t longs[2];
};

SVC_KERNEL(svcCopyBlocks, CopyBlocksParams, kRowThreads) {
  const auto* from = reinterpret_cast<const LongPair*>(p.from[blockIdx.y]);
  auto* to = reinterpret_cast<LongPair*>(p.to[blockIdx.y]);
  const int64_t step = int64_t{gridDim.x} * kRowThreads;
  unsigned long long sum = 0;
#pragma unroll 4
  for (int64_t i = int64_t{blockIdx.x} * kRowThreads + thread(); i < p.bytes / 16; i += step) {
    const LongPair pair = from[i];
    if (to != nullptr) to[i] = pair;
    sum += pair.longs[0] * static_cast<uint64_t>(4 * i + 1) + pair.longs[1] * static_cast<uint64_t>(4 * i + 3);
  }
  sum = reduceBlock(sum, Add());
  if (thread() == 0) p.sums[int64_t{blockIdx.y} * gridDim.x + blockIdx.x] = sum;
}

}  // namespace svc::cuda
