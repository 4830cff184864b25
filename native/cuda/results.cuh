// What becomes of the sums of a product: they are added to those of other blocks, and are brought to where they go.
#pragma once

#include "math.cuh"

namespace svc::cuda {

/// The product that a sum is, of floats or of whole numbers.
__device__ __forceinline__ float valueOf(const LinearParams&, int, int, float sum) { return sum; }
__device__ __forceinline__ float valueOf(const LinearParams& p, int token, int n, int32_t sum) {
  return static_cast<float>(sum) * p.rowScales[token] * p.columnScales[n];
}

/// The number of the result that a sum is for, of column n of the weight and of `token`.
__device__ __forceinline__ float& placeOf(const LinearParams& p, int token, int n) {
  return static_cast<float*>(p.out)[token * p.outStride + n];
}
/// What is to be there, with that sum.
__device__ __forceinline__ float resultOf(const LinearParams& p, int token, int n, float sum) {
  if (p.bias != nullptr) sum += p.bias[n];
  return p.add ? placeOf(p, token, n) + sum : sum;
}
/// Brings the sum to where it goes.
__device__ __forceinline__ void finish(const LinearParams& p, int token, int n, float sum) {
  placeOf(p, token, n) = resultOf(p, token, n, sum);
}
/// The same of gate and up, row n and row n + 8 of the weight.
__device__ __forceinline__ void finishGated(const LinearParams& p, int token, int n, float gate, float up) {
  if (p.bias != nullptr) {
    gate += p.bias[n];
    up += p.bias[n + 8];
  }
  static_cast<uint16_t*>(p.out)[token * p.outStride + n / 16 * 8 + n % 8] = floatToHalf(gated(p.activation, gate, up));
}

template <class Sum>
__device__ __forceinline__ Sum* partialsOf(const LinearParams& p) {
  return reinterpret_cast<Sum*>(p.partials);
}
/// The sum of the first `count` of `parts` by the tree of neighbours, in which a block adds its own.
template <class Sum>
__device__ __forceinline__ Sum sumOfParts(Sum (&parts)[kMostSegments], int count) {
#pragma unroll
  for (int width = 1; width < kMostSegments; width *= 2) {
    if (width >= count) break;
#pragma unroll
    for (int i = 0; i + width < kMostSegments; i += 2 * width) parts[i] += parts[i + width];
  }
  return parts[0];
}
/// The sum of a number's partial sums.
template <class Sum>
__device__ __forceinline__ float treeOf(const LinearParams& p, int token, int n) {
  Sum parts[kMostSegments];
  const int count = p.segments / p.segmentsPerBlock;
  const int64_t stride = int64_t{p.rows} * p.n;
  const Sum* first = partialsOf<Sum>(p) + int64_t{token} * p.n + n;
#pragma unroll
  for (int i = 0; i < kMostSegments; ++i) parts[i] = i < count ? first[i * stride] : Sum{0};
  return valueOf(p, token, n, sumOfParts(parts, count));
}

}  // namespace svc::cuda
