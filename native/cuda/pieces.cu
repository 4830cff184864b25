// Pieces of KV memory on their way from GPU to GPU: copied and summed in one pass over their bytes.

#include "device.cuh"

namespace svc::cuda {

/// A thread's numbers come from 16 bytes at once.
struct alignas(16) LongPair {
  uint64_t longs[2];
};

/// Loads of a thread that are under way at once: none is begun past a store, which might change what it reads.
constexpr int kLoadsAtOnce = 4;

/// Of the i-th 16 bytes of a piece in its grids, from where those begin.
struct InGrids {
  uint64_t from, to;
};

__device__ __forceinline__ InGrids placeOf(const CopyPiecesParams& p, int64_t i) {
  uint32_t inSection = static_cast<uint32_t>(16 * i);
  int number = 0;
  for (; inSection >= p.sections[number].bytes; ++number) inSection -= p.sections[number].bytes;
  const PieceSection& section = p.sections[number];
  const uint64_t head = inSection / section.headBytes, inHead = inSection % section.headBytes;
  const uint64_t fromTile = p.fromTile[blockIdx.y], toTile = p.toTile[blockIdx.y];
  return {section.from + fromTile * section.tileBytes + head * section.fromStride + inHead,
          section.to + toTile * section.tileBytes + head * section.toStride + inHead};
}

SVC_KERNEL(svcCopyPieces, CopyPiecesParams, kRowThreads) {
  const uint64_t from = p.from[blockIdx.y], to = p.to[blockIdx.y];
  const int64_t count = p.bytes / 16, step = int64_t{gridDim.x} * kRowThreads;
  unsigned long long sum = 0;
  for (int64_t first = int64_t{blockIdx.x} * kRowThreads + thread(); first < count; first += kLoadsAtOnce * step) {
    LongPair pairs[kLoadsAtOnce];
    uint64_t places[kLoadsAtOnce];
#pragma unroll
    for (int k = 0; k < kLoadsAtOnce; ++k) {
      const int64_t i = first + k * step;
      if (i >= count) continue;
      const InGrids place = placeOf(p, i);
      pairs[k] = *reinterpret_cast<const LongPair*>(from + place.from);
      places[k] = to + place.to;
    }
#pragma unroll
    for (int k = 0; k < kLoadsAtOnce; ++k) {
      const int64_t i = first + k * step;
      if (i >= count) continue;
      if (to != 0) *reinterpret_cast<LongPair*>(places[k]) = pairs[k];
      sum += pairs[k].longs[0] * static_cast<uint64_t>(4 * i + 1) + pairs[k].longs[1] * static_cast<uint64_t>(4 * i + 3);
    }
  }
  sum = reduceBlock(sum, Add());
  if (thread() == 0) p.sums[int64_t{blockIdx.y} * gridDim.x + blockIdx.x] = sum;
}

}  // namespace svc::cuda
