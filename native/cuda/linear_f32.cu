// Matrix products of f32: each sum is one chain along its segment of k, and the segments are added as a binary tree.

#include "groups.cuh"
#include "math.cuh"

namespace svc::cuda {

/// Rows of the weight that a thread has.
constexpr int kF32Rows = kF32Weights * kF32Tokens / kF32Threads;

/// Sums of segments that wait for their right neighbours, a level of the tree after the other.
struct F32Tree {
  static constexpr int kLevels = 2;
  static_assert(kMostSegments == 1 << kLevels);
  float waiting[kLevels][kF32Rows] = {};

  /// Adds the sums of segment `index` to all that they complete.
  __device__ void join(int index, float (&sums)[kF32Rows]) {
    bool isWhole = true;
#pragma unroll
    for (int level = 0; level < kLevels; ++level) {
      const bool isRight = index >> level & 1;
#pragma unroll
      for (int row = 0; row < kF32Rows; ++row) {
        float& left = waiting[level][row];
        if (isWhole && isRight) sums[row] = left + sums[row];
        if (isWhole && !isRight) left = sums[row];
      }
      isWhole = isWhole && isRight;
    }
  }
};

/// Tiles in shared memory, a column of k after the other; a thread has one token and four rows of the weight, which of gate and up are two
/// of each.
__device__ __forceinline__ void multiplyF32(const LinearParams& p, int firstToken) {
  constexpr int kThreadsN = kF32Threads / kF32Tokens;
  static_assert(kThreadsN == 16 && kSegmentUnit % kF32K == 0);
  __shared__ float weights[kF32K][kF32Weights + 1];
  __shared__ float tokens[kF32K][kF32Tokens + 1];
  const int firstWeight = static_cast<int>(blockIdx.x) * kF32Weights;
  const int mine = thread() % kThreadsN, token = firstToken + thread() / kThreadsN;
  const auto* x = reinterpret_cast<const float*>(p.x);
  F32Tree tree;
  float sums[kF32Rows];
  for (int segment = 0; segment < p.segments; ++segment) {
    const int begin = segmentBegin(p.k, p.segments, segment), end = segmentBegin(p.k, p.segments, segment + 1);
    for (float& sum : sums) sum = 0.0f;
    for (int k = begin; k < end; k += kF32K) {
      __syncthreads();  // the last tiles have been read
      for (int i = thread(); i < kF32Weights * kF32K; i += kF32Threads) {
        const int row = firstWeight + i / kF32K, column = k + i % kF32K;
        weights[i % kF32K][i / kF32K] = row < p.n && column < p.k ? p.f32[row * p.weightStride + column] : 0.0f;
      }
      for (int i = thread(); i < kF32Tokens * kF32K; i += kF32Threads) {
        const int row = firstToken + i / kF32K, column = k + i % kF32K;
        tokens[i % kF32K][i / kF32K] = row < p.rows && column < p.k ? x[row * p.xStride + column] : 0.0f;
      }
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kF32K; ++i) {
        const float number = tokens[i][thread() / kThreadsN];
#pragma unroll
        for (int row = 0; row < kF32Rows; ++row) sums[row] = fma(weights[i][row * kThreadsN + mine], number, sums[row]);
      }
    }
    tree.join(segment, sums);
  }
#pragma unroll
  for (int row = 0; row < kF32Rows; ++row) {
    const int n = firstWeight + row * kThreadsN + mine;
    const bool isInside = token < p.rows && n < p.n;
    if (p.bias != nullptr && n < p.n) sums[row] += p.bias[n];
    // Gate and up take turns, eight rows each: lanes that are 8 apart have both.
    const float up = shuffleXor<8>(sums[row]);
    if (!isInside || (p.activation >= 0 && n % 16 >= 8)) continue;
    float* out = static_cast<float*>(p.out) + token * p.outStride;
    if (p.activation >= 0) out[n / 16 * 8 + n % 8] = gated(p.activation, sums[row], up);
    else out[n] = p.add ? out[n] + sums[row] : sums[row];
  }
}

SVC_KERNEL(svcLinearF32, LinearParams, kF32Threads) { multiplyF32(p, static_cast<int>(blockIdx.y) * kF32Tokens); }

struct F32Weight {
  static constexpr Format kInput = Format::F32;
  __device__ static void moveTo(LinearParams& p, const GroupWeight& group) { p.f32 += group.first; }
};

/// A tile may have more rows than a block takes at a time.
SVC_KERNEL(svcF32Groups, GroupedLinearParams, kF32Threads) {
  const GroupProduct of = groupProduct<F32Weight>(p, kF32Weights, kF32Tokens);
  const int end = p.tiles == nullptr && of.firstToken + kF32Tokens < of.product.rows ? of.firstToken + kF32Tokens : of.product.rows;
  for (int first = of.firstToken; first < end; first += kF32Tokens) multiplyF32(of.product, first);
}

}  // namespace svc::cuda
