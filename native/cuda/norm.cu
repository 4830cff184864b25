// Norms of rows, or of the heads of rows: one block of threads for each, whose sums are ordered by the number of columns alone.

#include "results.cuh"
#include "row_sums.cuh"

namespace svc::cuda {

/// The part of `row` that this block normalises.
template <class Params>
__device__ const float* segmentOf(const Params& p) {
  return p.x + blockIdx.x * p.xStride + static_cast<int64_t>(blockIdx.y) * p.cols;
}

template <class Params>
__device__ void store(const Params& p, int column, float value) {
  void* row = rowOf(p.outFormat, p.out, p.outStride, blockIdx.x);
  storeAs(p.outFormat, row, static_cast<int64_t>(blockIdx.y) * p.cols + column, value);
}

/// load(begin) leaves each batch of the block's row in its place, p.x, if it is not there already.
template <int kThreads, class Load>
__device__ __forceinline__ void rmsNorm(const RmsNormParams& p, const Load& load) {
  const float* x = segmentOf(p);
  const float* const weights = p.weight + blockIdx.y * p.weightStride;
  const Batch<kThreads> firstWeight(weights, 0, p.cols), first = load(0);
  const auto square = [](float number) { return number * number; };
  const float mean = sumOf<kThreads>(load, p.cols, first, square) / static_cast<float>(p.cols);
  const float factor = 1.0f / squareRoot(mean + p.eps);
  const auto finish = [&](int begin, const Batch<kThreads>& batch, const Batch<kThreads>& weight) {
    batch.each(begin, p.cols, [&](int j, int column) { store(p, column, batch.numbers[j] * factor * weight.numbers[j]); });
  };
  finish(0, first, firstWeight);
#pragma unroll 1
  for (int begin = first.kCount; begin < p.cols; begin += first.kCount) {
    finish(begin, Batch<kThreads>(x, begin, p.cols), Batch<kThreads>(weights, begin, p.cols));
  }
}

template <int kThreads>
__device__ __forceinline__ void rmsNorm(const RmsNormParams& p) {
  rmsNorm<kThreads>(p, [&](int begin) { return Batch<kThreads>(segmentOf(p), begin, p.cols); });
}

/// Numbers of a row of a product, as svcLinearCombine makes them of its parts. All that they are made of is loaded together.
template <int kThreads>
__device__ __forceinline__ Batch<kThreads> resultsOf(const LinearParams& p, int row, int begin) {
  const int count = p.segments / p.segmentsPerBlock;
  Batch<kThreads> parts[kMostSegments];
#pragma unroll
  for (int i = 0; i < kMostSegments; ++i) {
    if (i < count) parts[i] = Batch<kThreads>(p.partials + (int64_t{i} * p.rows + row) * p.n, begin, p.n);
  }
  const Batch<kThreads> bias(p.bias, begin, p.bias == nullptr ? 0 : p.n);
  Batch<kThreads> before(&placeOf(p, row, 0), begin, p.add ? p.n : 0), sums = sumOfParts(parts, count);
  if (p.bias != nullptr) sums += bias;
  return p.add ? before += sums : sums;
}

/// Of the row that the sums of parts of a product give, which goes to its place as well: svcLinearCombine and svcRmsNorm, one after the other.
template <int kThreads>
__device__ __forceinline__ void combineAndNormalise(const CombineNormParams& p) {
  const int row = static_cast<int>(blockIdx.x);
  rmsNorm<kThreads>(p.norm, [&](int begin) {
    const Batch<kThreads> results = resultsOf<kThreads>(p.product, row, begin);
    results.each(begin, p.product.n, [&](int j, int n) { placeOf(p.product, row, n) = results.numbers[j]; });
    return results;
  });
}

template <int kThreads>
__device__ __forceinline__ void layerNorm(const LayerNormParams& p) {
  const float* x = segmentOf(p);
  const float* const weights = p.weight + blockIdx.y * p.weightStride;
  const float* const biases = p.bias == nullptr ? nullptr : p.bias + blockIdx.y * p.weightStride;
  const auto count = static_cast<float>(p.cols);
  const auto load = [&](int begin) { return Batch<kThreads>(x, begin, p.cols); };
  const Batch<kThreads> first = load(0), firstWeight(weights, 0, p.cols);
  const float mean = sumOf<kThreads>(load, p.cols, first, [](float number) { return number; }) / count;
  const auto square = [&](float number) { return (number - mean) * (number - mean); };
  const float factor = 1.0f / squareRoot(sumOf<kThreads>(load, p.cols, first, square) / count + p.eps);
  const auto finish = [&](int begin, const Batch<kThreads>& batch, const Batch<kThreads>& weight) {
    const Batch<kThreads> bias(biases, begin, biases == nullptr ? 0 : p.cols);
    batch.each(begin, p.cols, [&](int j, int column) {
      const float value = (batch.numbers[j] - mean) * factor * weight.numbers[j];
      store(p, column, biases == nullptr ? value : value + bias.numbers[j]);
    });
  };
  finish(0, first, firstWeight);
#pragma unroll 1
  for (int begin = first.kCount; begin < p.cols; begin += first.kCount) {
    finish(begin, Batch<kThreads>(x, begin, p.cols), Batch<kThreads>(weights, begin, p.cols));
  }
}

SVC_KERNEL(svcRmsNorm, RmsNormParams, kRowThreads) { rmsNorm<kRowThreads>(p); }
SVC_KERNEL(svcLayerNorm, LayerNormParams, kRowThreads) { layerNorm<kRowThreads>(p); }
SVC_KERNEL(svcCombineRmsNorm, CombineNormParams, kRowThreads) { combineAndNormalise<kRowThreads>(p); }
SVC_KERNEL(svcWarpCombineRmsNorm, CombineNormParams, kWarp) { combineAndNormalise<kWarp>(p); }
SVC_KERNEL(svcWarpRmsNorm, RmsNormParams, kWarp) { rmsNorm<kWarp>(p); }
SVC_KERNEL(svcWarpLayerNorm, LayerNormParams, kWarp) { layerNorm<kWarp>(p); }

}  // namespace svc::cuda
