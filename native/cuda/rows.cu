// Ops that make each number of a row by itself.

#include "codes.cuh"
#include "math.cuh"
#include "rope.cuh"

namespace svc::cuda {

/// The number of its row that this thread makes.
__device__ __forceinline__ int column() { return static_cast<int>(blockIdx.y) * kRowThreads + thread(); }

__device__ int tokenOf(const EmbeddingParams& p, int row) {
  const int id = p.ids[row];
  const int token = id >= 0 ? id : p.sampled[-1 - id];
  if (token < p.vocab) return token < 0 ? 0 : token;
  *p.fault = 1;
  return 0;
}

__device__ float numberOf(const EmbeddingParams& p, int token, int i) {
  if (p.codes.panels != nullptr) return numberAt(p.codes, token, i);
  const int64_t at = token * p.tableStride + i;
  if (p.halves != nullptr) return halfToFloat(p.halves[at]);
  return p.f32 != nullptr ? p.f32[at] : static_cast<float>(p.int8[at]) * p.scales[token];
}

SVC_KERNEL(svcEmbedding, EmbeddingParams, kRowThreads) {
  const int row = static_cast<int>(blockIdx.x), i = column();
  if (i >= p.cols) return;
  const int own = tokenOf(p, row) - p.first;
  const bool isHere = own >= 0 && own < p.tokens;
  p.out[row * p.outStride + (p.columns == nullptr ? i : p.columns[i])] = isHere ? numberOf(p, own, i) : -0.0f;
}

SVC_KERNEL(svcRope, RopeParams, kRowThreads) {
  const int half = p.rotaryDim / 2, pair = column() % half, head = column() / half;
  if (head >= p.heads) return;
  const int row = static_cast<int>(blockIdx.x);
  const float* turn = turnOf(p, p.table, row, pair);
  const float cosine = turn[pair], sine = turn[half + pair];
  float* x = p.x + row * p.xStride + static_cast<int64_t>(head) * p.headDim + p.first;
  float& a = x[p.isInterleaved ? 2 * pair : pair];
  float& b = x[p.isInterleaved ? 2 * pair + 1 : half + pair];
  const float first = a * cosine - b * sine;
  b = b * cosine + a * sine;
  a = first;
}

/// In words of 16 bits: they are the largest that divide any row.
SVC_KERNEL(svcGatherRows, GatherRowsParams, kRowThreads) {
  const int row = static_cast<int>(blockIdx.x), i = column();
  if (i >= p.rowBytes / 2) return;
  const char* from = static_cast<const char*>(p.x) + (p.ids == nullptr ? row : p.ids[row]) * p.xStride;
  char* to = static_cast<char*>(p.out) + row * p.outStride;
  reinterpret_cast<uint16_t*>(to)[i] = reinterpret_cast<const uint16_t*>(from)[i];
}

SVC_KERNEL(svcMeanRows, MeanRowsParams, kRowThreads) {
  const int row = static_cast<int>(blockIdx.x), i = column();
  if (i >= p.cols) return;
  const int begin = p.starts[row], end = p.starts[row + 1];
  double sum = 0.0;
  for (int from = begin; from < end; ++from) sum += p.x[from * p.xStride + i];
  p.out[row * p.outStride + i] = static_cast<float>(sum / (end - begin));
}

/// out = make(x), number by number.
template <class Params, class Make>
__device__ void eachNumber(const Params& p, const Make& make) {
  const int row = static_cast<int>(blockIdx.x), i = column();
  if (i >= p.cols) return;
  storeAs(p.outFormat, rowOf(p.outFormat, p.out, p.outStride, row), i, make(p.x[row * p.xStride + i]));
}

SVC_KERNEL(svcActivate, ElementwiseParams, kRowThreads) {
  eachNumber(p, [&](float x) { return activated(p.activation, x); });
}

SVC_KERNEL(svcXielu, XieluParams, kRowThreads) {
  eachNumber(p, [&](float x) { return xielu(p.positive, p.negative, p.linear, p.least, x); });
}

SVC_KERNEL(svcCast, CastParams, kRowThreads) {
  const int row = static_cast<int>(blockIdx.x), i = column();
  if (i >= p.cols) return;
  storeAs(p.outFormat, rowOf(p.outFormat, p.out, p.outStride, row), i, numberOf(p.format, p.x, p.xStride, row, i));
}

SVC_KERNEL(svcAddScaled, ElementwiseParams, kRowThreads) {
  const int row = static_cast<int>(blockIdx.x), i = column();
  if (i >= p.cols) return;
  static_cast<float*>(p.out)[row * p.outStride + i] += p.x[row * p.xStride + i] * p.value;
}

SVC_KERNEL(svcScale, ElementwiseParams, kRowThreads) {
  eachNumber(p, [&](float x) { return x * p.value; });
}

SVC_KERNEL(svcSoftcap, ElementwiseParams, kRowThreads) {
  eachNumber(p, [&](float x) { return p.value * hyperbolicTangent(x / p.value); });
}

SVC_KERNEL(svcClip, ElementwiseParams, kRowThreads) {
  // NaN is neither, and stays.
  eachNumber(p, [&](float x) { return x > p.value ? p.value : x < p.least ? p.least : x; });
}

}  // namespace svc::cuda
