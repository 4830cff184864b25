// What a rank makes of the parts of all ranks, which were brought together in its memory.

#include "math.cuh"

namespace svc::cuda {

/// In words of 16 bits: they are the largest that divide any row.
SVC_KERNEL(svcPlaceColumns, PlaceColumnsParams, kRowThreads) {
  const int row = static_cast<int>(blockIdx.x), i = static_cast<int>(blockIdx.y) * kRowThreads + thread();
  const int rank = static_cast<int>(blockIdx.z), begin = p.begins[rank];
  if (i >= (p.begins[rank + 1] - begin) / 2) return;
  const char* from = p.parts + rank * p.partBytes + row * p.partRowBytes;
  char* to = p.out + row * p.outStride + begin;
  reinterpret_cast<uint16_t*>(to)[i] = reinterpret_cast<const uint16_t*>(from)[i];
}

SVC_KERNEL(svcSumRanks, SumRanksParams, kRowThreads) {
  const int row = static_cast<int>(blockIdx.x), i = static_cast<int>(blockIdx.y) * kRowThreads + thread();
  if (i >= p.cols) return;
  const char* from = p.parts + (int64_t{row} * p.cols + i) * 4;
  float sums[kMostRanks];
#pragma unroll
  for (int rank = 0; rank < kMostRanks; ++rank) {
    sums[rank] = rank < p.ranks ? *reinterpret_cast<const float*>(from + rank * p.partBytes) : 0.0f;
  }
  // Ranks that are not there are in no sum of those that are.
#pragma unroll
  for (int width = 1; width < kMostRanks; width *= 2) {
    if (width >= p.ranks) break;
#pragma unroll
    for (int rank = 0; rank < kMostRanks; rank += 2 * width) sums[rank] += sums[rank + width];
  }
  p.out[row * p.outStride + i] = sums[0];
}

}  // namespace svc::cuda
