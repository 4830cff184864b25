// When blocks of kernels begin, have waited and end. Compiled only where SVC_TRACE is defined: a step takes some 2 % longer then.
#pragma once

#include "trace.h"

namespace svc::cuda {

__device__ BlockTimes traces[kMostTraces];
__device__ unsigned numTraces;
/// Of the first thread of a block.
__shared__ uint64_t waitedAt;

__device__ __forceinline__ uint64_t nanoseconds() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

/// In a kernel from its begin to its end.
class KernelTrace {
 public:
  __device__ __forceinline__ explicit KernelTrace(uint32_t kernel) : kernel_(kernel), begun_(nanoseconds()) {}
  __device__ __forceinline__ ~KernelTrace() {
    if (threadIdx.x != 0) return;
    traces[atomicAdd(&numTraces, 1u) % kMostTraces] = {begun_, waitedAt, nanoseconds(), kernel_, gridDim.x * gridDim.y * gridDim.z};
  }

 private:
  uint32_t kernel_;
  uint64_t begun_;
};

__device__ __forceinline__ void noteWaited() {
  if (threadIdx.x == 0) waitedAt = nanoseconds();
}

/// Tells where all that is.
extern "C" __global__ void svcTraces(void** out) {
  out[0] = traces;
  out[1] = &numTraces;
}

}  // namespace svc::cuda
