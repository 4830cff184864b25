// Attention of f32, plainly: a block of threads takes one head of one token, and walks tiles of 64 tokens at absolute positions.

#include "kv.cuh"

namespace svc::cuda {

struct F32Attention {
  const AttentionParams& p;
  const int token, head, sequence;
  const Sight sight;
  float* query;   // [headDim]
  float* sums;    // [headDim]
  float* scores;  // [kKvTile], then weights

  __device__ explicit F32Attention(const AttentionParams& params)
      : p(params),
        token(static_cast<int>(blockIdx.x)),
        head(static_cast<int>(blockIdx.y)),
        sequence(sequenceOf(p, token)),
        sight(sightOf(p, sequence, token - p.queryStarts[sequence])),
        query(reinterpret_cast<float*>(dynamicShared())),
        sums(query + p.kv.headDim),
        scores(sums + p.kv.headDim) {}

  __device__ void run() {
    for (int i = thread(); i < p.kv.headDim; i += threads()) {
      query[i] = p.q[token * p.qStride + int64_t{head} * p.kv.headDim + i];
      sums[i] = 0.0f;
    }
    float largest = -kInfinity, weight = 0.0f;
    for (int first = sight.first / kKvTile * kKvTile; first <= sight.last; first += kKvTile) {
      __syncthreads();  // the last weights have been read
      for (int i = warp(); i < kKvTile; i += threads() / kWarp) score(first, i);
      __syncthreads();
      float most = largest;
      for (int i = 0; i < kKvTile; ++i) most = Max()(most, scores[i]);
      const float factor = largest == -kInfinity ? 0.0f : exponential(largest - most);
      largest = most;
      __syncthreads();  // the scores have been read
      if (thread() < kKvTile) scores[thread()] = exponential(scores[thread()] - largest);
      __syncthreads();
      weight *= factor;
      for (int i = 0; i < kKvTile; ++i) weight += scores[i];
      for (int d = thread(); d < p.kv.headDim; d += threads()) sums[d] = addValues(first, d, sums[d] * factor);
    }
    store({largest, weight});
  }

  __device__ const float* vectorAt(int position, int kind) const {
    const KvRow& kv = p.kv;
    const int32_t block = p.blockTables[static_cast<int64_t>(sequence) * p.maxBlocks + position / kv.blockSize];
    const KvPlace place(kv, block, kind, head / (p.heads / kv.kvHeads), position % kv.blockSize);
    return reinterpret_cast<const float*>(place.numbers);
  }
  __device__ bool isSeen(int position) const { return position >= sight.first && position <= sight.last; }

  /// That of token i of the tile, by a warp.
  __device__ void score(int first, int i) const {
    float sum = 0.0f;
    if (isSeen(first + i)) {
      const float* key = vectorAt(first + i, 0);
      for (int d = lane(); d < p.kv.headDim; d += kWarp) sum = fma(query[d], key[d], sum);
    }
    sum = reduceWarp(sum, Add()) * p.scale;
    if (p.softcap > 0.0f) sum = p.softcap * hyperbolicTangent(sum / p.softcap);
    if (lane() == 0) scores[i] = isSeen(first + i) ? sum : -kInfinity;
  }

  __device__ float addValues(int first, int d, float sum) const {
    for (int i = 0; i < kKvTile; ++i) {
      if (isSeen(first + i)) sum = fma(scores[i], vectorAt(first + i, 1)[d], sum);
    }
    return sum;
  }

  __device__ void store(const Progress& progress) const {
    const float factor = finish(progress, p.sinks, head);
    float* out = static_cast<float*>(p.out) + token * p.outStride + int64_t{head} * p.kv.headDim;
    for (int d = thread(); d < p.kv.headDim; d += threads()) out[d] = sums[d] * factor;
  }
};

SVC_KERNEL(svcF32Attention, AttentionParams, kAttentionThreads) { F32Attention(p).run(); }

}  // namespace svc::cuda
