// Matrix products of f32: each sum is one chain along k.

#include "math.cuh"

namespace svc::cuda {

/// Tiles in shared memory, a column of k after the other; a thread has one token and four rows of the weight, which of gate and up are two
/// of each.
SVC_KERNEL(svcLinearF32, LinearParams, kF32Threads) {
  constexpr int kThreadsN = kF32Threads / kF32Tokens, kRows = kF32Weights / kThreadsN;
  static_assert(kThreadsN == 16 && kRows == 4);
  __shared__ float weights[kF32K][kF32Weights + 1];
  __shared__ float tokens[kF32K][kF32Tokens + 1];
  const int firstWeight = static_cast<int>(blockIdx.x) * kF32Weights, firstToken = static_cast<int>(blockIdx.y) * kF32Tokens;
  const int mine = thread() % kThreadsN, token = firstToken + thread() / kThreadsN;
  const auto* x = reinterpret_cast<const float*>(p.x);
  float sums[kRows] = {};
  for (int k = 0; k < p.k; k += kF32K) {
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
      for (int row = 0; row < kRows; ++row) sums[row] = fma(weights[i][row * kThreadsN + mine], number, sums[row]);
    }
  }
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
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

}  // namespace svc::cuda
