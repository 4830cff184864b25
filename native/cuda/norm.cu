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

SVC_KERNEL(svcRmsNorm, RmsNormParams, kRowThreads) {
  const float* x = segmentOf(p);
  float squares = 0.0f;
  for (int i = thread(); i < p.cols; i += threads()) squares += x[i] * x[i];
  const float mean = reduceBlock(squares, Add()) / static_cast<float>(p.cols);
  const float factor = 1.0f / squareRoot(mean + p.eps);
  for (int i = thread(); i < p.cols; i += threads()) store(p, i, x[i] * factor * p.weight[i]);
}

SVC_KERNEL(svcLayerNorm, LayerNormParams, kRowThreads) {
  const float* x = segmentOf(p);
  const int64_t shared = blockIdx.y * p.weightStride;
  const auto count = static_cast<float>(p.cols);
  float sum = 0.0f;
  for (int i = thread(); i < p.cols; i += threads()) sum += x[i];
  const float mean = reduceBlock(sum, Add()) / count;
  float squares = 0.0f;
  for (int i = thread(); i < p.cols; i += threads()) squares += (x[i] - mean) * (x[i] - mean);
  const float factor = 1.0f / squareRoot(reduceBlock(squares, Add()) / count + p.eps);
  for (int i = thread(); i < p.cols; i += threads()) {
    const float value = (x[i] - mean) * factor * p.weight[shared + i];
    store(p, i, p.bias == nullptr ? value : value + p.bias[shared + i]);
  }
}

}  // namespace svc::cuda
