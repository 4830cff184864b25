// The angles by which numbers of heads turn.
#pragma once

#include "device.cuh"

namespace svc::cuda {

/// As `svc::RopeHeads::planeOf`.
__device__ __forceinline__ int planeOf(const RopeParams& p, int pair) {
  if (p.alternate) return pair % 3 != 0 && pair < 3 * (pair % 3 == 1 ? p.lines : p.columns) ? pair % 3 : 0;
  const int fromEnd = p.rotaryDim / 2 - pair;
  return fromEnd > p.lines + p.columns ? 0 : fromEnd > p.columns ? 1 : 2;
}

/// The row of `table` by which a pair of row `row` turns.
__device__ __forceinline__ const float* turnOf(const RopeParams& p, const float* table, int row, int pair) {
  return table + static_cast<int64_t>(p.positions[planeOf(p, pair)][row]) * p.rotaryDim;
}

}  // namespace svc::cuda
