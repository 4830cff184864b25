// Streams of numbers side by side in a row, and what closes most gates of one.

#include "math.cuh"
#include "row_sums.cuh"

namespace svc::cuda {

SVC_KERNEL(svcScaleColumns, ScaleColumnsParams, kRowThreads) {
  const int row = static_cast<int>(blockIdx.x), i = static_cast<int>(blockIdx.y) * kRowThreads + thread();
  if (i >= p.cols) return;
  storeAs(p.outFormat, rowOf(p.outFormat, p.out, p.outStride, row), i, p.x[row * p.xStride + i] * p.factors[i]);
}

/// The mean of term(number) of a row.
template <class Term>
__device__ __forceinline__ float meanOf(const float* row, int cols, const Term& term) {
  const auto load = [&](int begin) { return Batch<kRowThreads>(row, begin, cols); };
  return sumOf<kRowThreads>(load, cols, load(0), term) / static_cast<float>(cols);
}

SVC_KERNEL(svcSparsify, SparsifyParams, kRowThreads) {
  float* const row = p.x + blockIdx.x * p.xStride;
  const float mean = meanOf(row, p.cols, [](float x) { return x; });
  const float variance = meanOf(row, p.cols, [&](float x) { return (x - mean) * (x - mean); });
  const float least = mean + p.deviations * squareRoot(variance);
  for (int i = thread(); i < p.cols; i += kRowThreads) row[i] = relu(row[i] - least);
}

SVC_KERNEL(svcJoinStreams, JoinStreamsParams, kRowThreads) {
  const auto square = [](float x) { return x * x; };
  const float* const like = p.x + blockIdx.x * p.xStride;
  float* const out = p.out + blockIdx.x * p.outStride + static_cast<int64_t>(blockIdx.y) * p.width;
  if (blockIdx.y == 0) {
    for (int i = thread(); i < p.width; i += kRowThreads) out[i] = like[i];
    return;
  }
  const float* const from = p.others + blockIdx.x * p.othersStride + static_cast<int64_t>(blockIdx.y - 1) * p.width;
  const float own = meanOf(from, p.width, square);
  const float factor = squareRoot(meanOf(like, p.width, square)) / squareRoot(own < p.least ? p.least : own);
  for (int i = thread(); i < p.width; i += kRowThreads) out[i] = from[i] * factor;
}

/// Of each column, all streams are loaded before one is stored.
SVC_KERNEL(svcAddMixed, AddMixedParams, kRowThreads) {
  __shared__ float factors[kMostMixed * kMostMixed];
  const int row = static_cast<int>(blockIdx.x), i = static_cast<int>(blockIdx.y) * kRowThreads + thread();
  if (thread() < p.outputs * p.inputs) {
    float factor = p.offset;
    for (int j = 0; j < p.numbersOfRow; ++j)
      factor = fma(p.coefficients[thread() * p.numbersOfRow + j], p.numbers[row * p.numbersStride + j], factor);
    factors[thread()] = factor;
  }
  __syncthreads();
  if (i >= p.width) return;
  float from[kMostMixed];
#pragma unroll
  for (int b = 0; b < kMostMixed; ++b) from[b] = b < p.inputs ? p.x[row * p.xStride + static_cast<int64_t>(b) * p.width + i] : 0.0f;
  for (int a = 0; a < p.outputs; ++a) {
    float& sum = p.residual[row * p.residualStride + static_cast<int64_t>(a) * p.width + i];
    float total = sum;
#pragma unroll
    for (int b = 0; b < kMostMixed; ++b) {
      if (b < p.inputs) total = fma(factors[a * p.inputs + b], from[b], total);
    }
    sum = total;
  }
}

}  // namespace svc::cuda
