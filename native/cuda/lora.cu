// What adapters add to products: svcGroupedLinear has made A · x of each row; here it is scaled, rounded and multiplied by B.

#include "math.cuh"

namespace svc::cuda {

__device__ __forceinline__ float widened(uint16_t number) { return halfToFloat(number); }
__device__ __forceinline__ float widened(float number) { return number; }
/// As a number of the format of B.
__device__ __forceinline__ float rounded(float x, const uint16_t*) { return halfToFloat(floatToHalf(x)); }
__device__ __forceinline__ float rounded(float x, const float*) { return x; }

/// What a column adds up of a tile's rows, kLoraRows at a time: ranks one after the other.
template <class Number>
__device__ __forceinline__ void addUp(float (&sums)[kLoraRows], const Number* b, const float* t, int stride, int ranks) {
  for (float& sum : sums) sum = 0.0f;
  for (int rank = 0; rank < ranks; ++rank) {
    const float number = widened(b[rank]);
#pragma unroll
    for (int row = 0; row < kLoraRows; ++row) sums[row] = fma(number, t[row * stride + rank], sums[row]);
  }
}

template <class Number>
__device__ __forceinline__ void loraUp(const LoraUpParams& p) {
  const GroupTile tile = p.tiles[blockIdx.y];
  const LoraGroup lora = p.loras[tile.group];
  const char* numbers = p.numbers + lora.first;
  const auto* scales = reinterpret_cast<const float*>(numbers + lora.scales);
  const int index = static_cast<int>(blockIdx.x) * kRowThreads + thread(), columns = p.n * (p.isGateUp ? 2 : 1);
  LoraColumn column = {0, 0, 0};
  if (index < columns) column = reinterpret_cast<const LoraColumn*>(numbers)[index];
  const auto* b = reinterpret_cast<const Number*>(numbers + lora.b) + column.first;
  const int place = !p.isGateUp ? index : index < p.n ? gateUpRow(index) : gateUpRow(index - p.n) + 8;
  auto* t = reinterpret_cast<float*>(dynamicShared());  // [kLoraRows, rank]
  for (int first = 0; first < tile.rows; first += kLoraRows) {
    __syncthreads();  // the rows before have been read
    for (int i = thread(); i < kLoraRows * lora.rank; i += kRowThreads) {
      const int row = first + i / lora.rank, rank = i % lora.rank;
      const float sum = row < tile.rows ? p.t[(tile.firstRow + row) * p.tStride + rank] : 0.0f;
      t[i] = rounded(sum * scales[rank], b);
    }
    __syncthreads();
    if (column.ranks == 0) continue;
    float sums[kLoraRows];
    addUp(sums, b, t + column.firstRank, lora.rank, column.ranks);
#pragma unroll
    for (int row = 0; row < kLoraRows; ++row) {
      if (first + row < tile.rows) p.out[(tile.firstRow + first + row) * p.outStride + place] += sums[row];
    }
  }
}

SVC_KERNEL(svcLoraUp, LoraUpParams, kRowThreads) { loraUp<uint16_t>(p); }
SVC_KERNEL(svcF32LoraUp, LoraUpParams, kRowThreads) { loraUp<float>(p); }

/// What svcLinear does with the sums of gate and up, where adapters have added to them.
SVC_KERNEL(svcGate, GateParams, kRowThreads) {
  const int row = static_cast<int>(blockIdx.x), i = static_cast<int>(blockIdx.y) * kRowThreads + thread();
  if (i >= p.n) return;
  const float* sum = p.sums + row * p.sumsStride + gateUpRow(i);
  storeAs(p.outFormat, rowOf(p.outFormat, p.out, p.outStride, row), i, gated(p.activation, sum[0], sum[8]));
}

}  // namespace svc::cuda
