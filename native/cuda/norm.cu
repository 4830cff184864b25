// Norms of rows, or of the heads of rows: one block of threads for each, whose sums are ordered by the number of columns alone.

#include "device.cuh"

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

/// Of a row, what a thread loads together: it would wait for each number if it added them one by one.
template <int kThreads>
struct Batch {
  static constexpr int kNumbers = kThreads == kWarp ? kWarpNormColumns / kWarp : 16;
  static constexpr int kColumns = kNumbers * kThreads;
  float numbers[kNumbers];
};

/// Calls use(j, column) of the columns of a batch that this thread has, ascending.
template <int kThreads, class Use>
__device__ __forceinline__ void eachColumn(int begin, int cols, const Use& use) {
#pragma unroll
  for (int j = 0; j < Batch<kThreads>::kNumbers; ++j) {
    const int column = begin + j * kThreads + thread();
    if (column < cols) use(j, column);
  }
}

template <int kThreads>
__device__ __forceinline__ Batch<kThreads> load(const float* from, int begin, int cols) {
  Batch<kThreads> batch = {};
  eachColumn<kThreads>(begin, cols, [&](int j, int column) { batch.numbers[j] = from[column]; });
  return batch;
}

/// The sum of term(number) of the row x, `first` being its first batch: of each thread in the order of columns, then of all threads.
template <int kThreads, class Term>
__device__ __forceinline__ float sumOf(const float* x, int cols, const Batch<kThreads>& first, const Term& term) {
  float sum = 0.0f;
  const auto add = [&](int begin, const Batch<kThreads>& batch) {
    eachColumn<kThreads>(begin, cols, [&](int j, int) { sum += term(batch.numbers[j]); });
  };
  add(0, first);
  for (int begin = first.kColumns; begin < cols; begin += first.kColumns) add(begin, load<kThreads>(x, begin, cols));
  return reduceBlock(sum, Add());
}

template <int kThreads>
__device__ __forceinline__ void rmsNorm(const RmsNormParams& p) {
  const float* x = segmentOf(p);
  const auto first = load<kThreads>(x, 0, p.cols), firstWeight = load<kThreads>(p.weight, 0, p.cols);
  const float mean = sumOf(x, p.cols, first, [](float number) { return number * number; }) / static_cast<float>(p.cols);
  const float factor = 1.0f / squareRoot(mean + p.eps);
  const auto finish = [&](int begin, const auto& batch, const auto& weight) {
    eachColumn<kThreads>(begin, p.cols, [&](int j, int column) { store(p, column, batch.numbers[j] * factor * weight.numbers[j]); });
  };
  finish(0, first, firstWeight);
  for (int begin = first.kColumns; begin < p.cols; begin += first.kColumns) {
    finish(begin, load<kThreads>(x, begin, p.cols), load<kThreads>(p.weight, begin, p.cols));
  }
}

template <int kThreads>
__device__ __forceinline__ void layerNorm(const LayerNormParams& p) {
  const float* x = segmentOf(p);
  const float* const weights = p.weight + blockIdx.y * p.weightStride;
  const float* const biases = p.bias == nullptr ? nullptr : p.bias + blockIdx.y * p.weightStride;
  const auto count = static_cast<float>(p.cols);
  const auto first = load<kThreads>(x, 0, p.cols), firstWeight = load<kThreads>(weights, 0, p.cols);
  const float mean = sumOf(x, p.cols, first, [](float number) { return number; }) / count;
  const auto square = [&](float number) { return (number - mean) * (number - mean); };
  const float factor = 1.0f / squareRoot(sumOf(x, p.cols, first, square) / count + p.eps);
  const auto finish = [&](int begin, const auto& batch, const auto& weight) {
    const auto bias = load<kThreads>(biases, begin, biases == nullptr ? 0 : p.cols);
    eachColumn<kThreads>(begin, p.cols, [&](int j, int column) {
      const float value = (batch.numbers[j] - mean) * factor * weight.numbers[j];
      store(p, column, biases == nullptr ? value : value + bias.numbers[j]);
    });
  };
  finish(0, first, firstWeight);
  for (int begin = first.kColumns; begin < p.cols; begin += first.kColumns) {
    finish(begin, load<kThreads>(x, begin, p.cols), load<kThreads>(weights, begin, p.cols));
  }
}

SVC_KERNEL(svcRmsNorm, RmsNormParams, kRowThreads) { rmsNorm<kRowThreads>(p); }
SVC_KERNEL(svcLayerNorm, LayerNormParams, kRowThreads) { layerNorm<kRowThreads>(p); }
SVC_KERNEL(svcWarpRmsNorm, RmsNormParams, kWarp) { rmsNorm<kWarp>(p); }
SVC_KERNEL(svcWarpLayerNorm, LayerNormParams, kWarp) { layerNorm<kWarp>(p); }

}  // namespace svc::cuda
