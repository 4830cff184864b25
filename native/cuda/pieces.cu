// Pieces of KV memory on their way from GPU to GPU: copied and summed in one pass over their bytes.

#include "device.cuh"

namespace svc::cuda {

/// A thread's numbers come from 16 bytes at once.
struct alignas(16) LongPair {
  uint64_t longs[2];
};

SVC_KERNEL(svcCopyPieces, CopyPiecesParams, kRowThreads) {
  const uint64_t from = p.from[blockIdx.y], to = p.to[blockIdx.y];
  const uint64_t fromTile = p.fromTile[blockIdx.y], toTile = p.toTile[blockIdx.y];
  const int64_t step = int64_t{gridDim.x} * kRowThreads;
  unsigned long long sum = 0;
#pragma unroll 4
  for (int64_t i = int64_t{blockIdx.x} * kRowThreads + thread(); i < p.bytes / 16; i += step) {
    uint32_t inSection = static_cast<uint32_t>(16 * i);
    int number = 0;
    for (; inSection >= p.sections[number].bytes; ++number) inSection -= p.sections[number].bytes;
    const PieceSection& section = p.sections[number];
    const uint64_t head = inSection / section.headBytes, inHead = inSection % section.headBytes;
    const uint64_t inFrom = section.from + fromTile * section.tileBytes + head * section.fromStride + inHead;
    const LongPair pair = *reinterpret_cast<const LongPair*>(from + inFrom);
    if (to != 0) {
      const uint64_t inTo = section.to + toTile * section.tileBytes + head * section.toStride + inHead;
      *reinterpret_cast<LongPair*>(to + inTo) = pair;
    }
    sum += pair.longs[0] * static_cast<uint64_t>(4 * i + 1) + pair.longs[1] * static_cast<uint64_t>(4 * i + 3);
  }
  sum = reduceBlock(sum, Add());
  if (thread() == 0) p.sums[int64_t{blockIdx.y} * gridDim.x + blockIdx.x] = sum;
}

}  // namespace svc::cuda
