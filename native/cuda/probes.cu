// What this GPU can do at most: reading its memory, and multiplying on its matrix units; and of which halves the kernels are.

#include "device.cuh"

namespace svc::cuda {

struct alignas(16) Words {
  uint32_t words[4];
};

SVC_KERNEL(svcReadMemory, ReadMemoryParams, kProbeThreads) {
  const auto* pieces = static_cast<const Words*>(p.data);
  const int64_t step = int64_t{gridDim.x} * kProbeThreads;
  uint32_t sum = 0;
#pragma unroll 8
  for (int64_t i = int64_t{blockIdx.x} * kProbeThreads + thread(); i < p.pieces; i += step) {
    const Words piece = pieces[i];
    sum += piece.words[0] ^ piece.words[1] ^ piece.words[2] ^ piece.words[3];
  }
  p.sums[int64_t{blockIdx.x} * kProbeThreads + thread()] = sum;
}

/// Each warp multiplies kProbeTiles matrices that do not wait for each other, `loops` times.
SVC_KERNEL(svcMatrixPeak, MatrixPeakParams, kProbeThreads) {
  const uint32_t a[4] = {static_cast<uint32_t>(thread()), 0, 0, 0};
  float sums[kProbeTiles][4] = {};
#pragma unroll 1
  for (int i = 0; i < p.loops; ++i) {
#pragma unroll
    for (auto& sum : sums) multiplyAdd(sum, a, static_cast<uint32_t>(i), 0);
  }
  float all = 0.0f;
#pragma unroll
  for (const auto& sum : sums) all += sum[0] + sum[1] + sum[2] + sum[3];
  p.sums[int64_t{blockIdx.x} * kProbeThreads + thread()] = all;
}

#ifdef SVC_F16
/// Computes nothing: that it is there says it.
SVC_KERNEL(svcOfF16, ReadMemoryParams, kWarp) { static_cast<void>(p); }
#endif

}  // namespace svc::cuda
