// Sums over the numbers of a row by one block of threads, ordered by the number of columns alone.
#pragma once

#include "columns.cuh"

namespace svc::cuda {

/// A warp loads short rows whole.
template <int kThreads>
using Batch = Columns<kThreads, kThreads == kWarp ? kWarpNormColumns / kWarp : 16>;

/// The sum of term(number) of a row, `first` being its first batch, and load(begin) any other: of each thread in the order of columns, then of all threads.
template <int kThreads, class Load, class Term>
__device__ __forceinline__ float sumOf(const Load& load, int cols, const Batch<kThreads>& first, const Term& term) {
  float sum = 0.0f;
  const auto add = [&](int begin, const Batch<kThreads>& batch) {
    batch.each(begin, cols, [&](int j, int) { sum += term(batch.numbers[j]); });
  };
  add(0, first);
#pragma unroll 1
  for (int begin = first.kCount; begin < cols; begin += first.kCount) add(begin, load(begin));
  return reduceBlock(sum, Add());
}

}  // namespace svc::cuda
