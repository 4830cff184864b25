// Columns of a row that threads take in turn.
#pragma once

#include "device.cuh"

namespace svc::cuda {

/// Of kCount columns those of one thread, `kThreads` apart. They are loaded together: a thread would wait for each if it used them one by one.
template <int kThreads, int kNumbers>
struct Columns {
  static constexpr int kCount = kThreads * kNumbers;
  float numbers[kNumbers] = {};

  __device__ __forceinline__ Columns() {}
  /// Those of `row` from `begin` on, of `cols` in all.
  __device__ __forceinline__ Columns(const float* row, int begin, int cols) {
    each(begin, cols, [&](int j, int column) { numbers[j] = row[column]; });
  }

  __device__ __forceinline__ Columns& operator+=(const Columns& others) {
#pragma unroll
    for (int j = 0; j < kNumbers; ++j) numbers[j] += others.numbers[j];
    return *this;
  }

  /// Calls use(j, column) where numbers[j] is that of a column, in their order.
  template <class Use>
  __device__ __forceinline__ static void each(int begin, int cols, const Use& use) {
#pragma unroll
    for (int j = 0; j < kNumbers; ++j) {
      const int column = begin + j * kThreads + (kThreads == kWarp ? lane() : thread());
      if (column < cols) use(j, column);
    }
  }
};

}  // namespace svc::cuda
