// What kernels of attention share: how states of chunks are merged, what a token sees, and tiles in shared memory.
#pragma once

#include "math.cuh"

namespace svc::cuda {

/// Where attention to a chunk, or to several, has come to: sum / weight is the result, of weights exp(score - largest).
struct Progress {
  float largest, weight;
};

struct Merge {
  float ofBefore, ofNext;
};

/// Adds the state of the next chunk to that of those before. What was not seen has a factor of 0, so that the other stays as it is.
__device__ __forceinline__ Merge merge(Progress& before, const Progress& next) {
  const float largest = before.largest < next.largest ? next.largest : before.largest;
  const Merge factors = {before.largest == -kInfinity ? 0.0f : exponential(before.largest - largest),
                         next.largest == -kInfinity ? 0.0f : exponential(next.largest - largest)};
  before = {largest, before.weight * factors.ofBefore + next.weight * factors.ofNext};
  return factors;
}

/// The sink joins after all chunks; returns the factor on a row's sums.
__device__ __forceinline__ float finish(Progress progress, const float* sinks, int head) {
  if (sinks == nullptr) return 1.0f / progress.weight;
  const Merge factors = merge(progress, {sinks[head], 1.0f});
  return factors.ofBefore / progress.weight;
}

/// A sum of nothing but zeros may have either sign.
__device__ __forceinline__ uint16_t resultOf(float sum, float factor) { return floatToHalf(sum * factor + 0.0f); }
__device__ __forceinline__ void storeResults(uint16_t* out, float first, float second, float factor) {
  *reinterpret_cast<uint32_t*>(out) = packHalves(first * factor + 0.0f, second * factor + 0.0f);
}

/// First and last position that a token sees.
struct Sight {
  int first, last;
};

__device__ __forceinline__ Sight sightOf(const AttentionParams& p, int sequence, int token) {
  const int context = p.contextLengths[sequence];
  const int count = p.queryStarts[sequence + 1] - p.queryStarts[sequence];
  const int position = context - count + token;
  const int ofWindow = p.window > 0 && position >= p.window ? position - p.window + 1 : 0;
  const int ofChunk = p.ownChunk > 0 ? position - position % p.ownChunk : 0;
  const int first = ofChunk > ofWindow ? ofChunk : ofWindow;
  const bool isBidirectional = p.bidirectional == nullptr ? p.isBidirectional != 0 : p.bidirectional[sequence] != 0;
  if (!isBidirectional) return {first, position};
  return {first, p.window > 0 && position + p.window < context ? position + p.window - 1 : context - 1};
}

/// The sequence that a row of the step belongs to: the last one that begins at it or before.
__device__ inline int sequenceOf(const AttentionParams& p, int token) {
  // Most often each has one row: a search would wait for one number after the other.
  if (token < p.numSequences && p.queryStarts[token] <= token && p.queryStarts[token + 1] > token) return token;
  int low = 0, high = p.numSequences;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (p.queryStarts[middle] <= token) low = middle;
    else high = middle;
  }
  return low;
}

/// Calls use(column of the head, matrix, number of the thread in it) for each pair of numbers that a thread has of one of its two rows: of the
/// matrices of `Owner`, as `multiplyAdd` leaves them, the columns that the head has.
template <class Owner, class Use>
__device__ __forceinline__ void eachPair(const Owner& owner, int half, const Use& use) {
#pragma unroll
  for (int d = 0; d < Owner::kColumns; ++d) {
    const int column = owner.firstColumn + d * 8 + lane() % 4 * 2;
    if (column < owner.p.kv.headDim) use(column, d, 2 * half);
  }
}

/// Rows of kWidth halves in shared memory; pieces of 16 bytes are swapped, so that eight rows are in different banks.
template <int kWidth>
__device__ __forceinline__ uint16_t* pieceOf(uint16_t* tile, int row, int piece) {
  return tile + row * kWidth + (piece ^ (row & 7)) * 8;
}

/// The same for loads of which a lane begins at one place and goes on by eights of rows, and by pieces that have no bits in common with its first.
template <int kWidth>
class LanePieces {
 public:
  __device__ __forceinline__ LanePieces(uint16_t* tile, int row, int piece)
      : row_(reinterpret_cast<char*>(tile + row * kWidth)), piece_((piece ^ (row & 7)) * 16) {}
  __device__ __forceinline__ const char* at(int rows, int pieces) const {
    return row_ + (piece_ ^ pieces % 8 * 16) + (rows * kWidth * 2 + pieces / 8 * 128);
  }

 private:
  char* row_;
  int piece_;
};

}  // namespace svc::cuda
