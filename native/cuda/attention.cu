// Attention over paged keys and values. A row is one query head of one token; a warp takes 16 rows, and all query heads of a KV head
// share what is loaded. A row walks tiles of 64 tokens at absolute positions, and merges the states of chunks of 256 in order. A
// block may take all chunks of its rows or a single one: the order of the sums is the same, and a tile that a row does not see
// changes no bit of it. So prefill and decode, in any chunking, have the same results.

#include "kv.cuh"

namespace svc::cuda {

/// Heads of kWidth numbers, kept as kForm. A block adds up valueWidth(kWidth) columns of the values: those of 256 would not fit in registers.
/// The grid says what a block takes, or a schedule.
template <int kWidth, KvForm kForm, bool kIsScheduled>
struct Attention {
  static constexpr int kValueWidth = valueWidth(kWidth);
  static constexpr int kColumns = kValueWidth / 8, kKeys = kKvTile / 8;  // matrices of 8

  const AttentionParams& p;
  const AttentionTile tile;
  const int kvHead, firstColumn, group, firstRow;
  uint16_t *queries, *keys, *values;
  float* totals;  // the thread's sums of all chunks so far
  Sight all;      // of the tile
  Sight sight[2];
  Progress total[2], chunk[2];
  float sums[kColumns][4];
  float scores[kKeys][4];

  __device__ static void compute(const AttentionParams& p) {
    if constexpr (kIsScheduled) {
      if (static_cast<int>(blockIdx.x) >= p.schedule.counts[0]) return;
      const AttentionWork& work = p.schedule.works[blockIdx.x];
      Attention(p, work.tile, work.part).run(work.firstChunk, work.endChunk, work.state);
    } else {
      const int chunk = static_cast<int>(blockIdx.z);
      const bool isWhole = p.partials == nullptr;
      Attention(p, p.tiles[blockIdx.x], static_cast<int>(blockIdx.y)).run(isWhole ? 0 : chunk, isWhole ? p.maxChunks : chunk + 1, 0);
    }
  }

  __device__ Attention(const AttentionParams& params, const AttentionTile& tile, int part)
      : p(params),
        tile(tile),
        kvHead(part % params.kv.kvHeads),
        firstColumn(part / params.kv.kvHeads * kValueWidth),
        group(params.heads / params.kv.kvHeads),
        firstRow(params.queryStarts[tile.sequence] + tile.firstToken) {
    keys = reinterpret_cast<uint16_t*>(dynamicShared());
    values = keys + kKvTile * kWidth;
    queries = values + kKvTile * kValueWidth;
    totals = reinterpret_cast<float*>(queries + threads() / 2 * kWidth) + thread() * sumStride(kValueWidth);
    all = {sightOf(p, tile.sequence, tile.firstToken).first,
           sightOf(p, tile.sequence, tile.firstToken + tile.numTokens - 1).last};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      sight[half] = isRow(half) ? sightOf(p, tile.sequence, tile.firstToken + rowOf(half) / group) : Sight{0, -1};
    }
  }

  /// A thread has numbers of two of the block's rows.
  __device__ int rowOf(int half) const { return warp() * 16 + lane() / 4 + half * 8; }
  __device__ bool isRow(int half) const { return rowOf(half) < tile.numTokens * group; }
  __device__ int tokenOf(int half) const { return firstRow + rowOf(half) / group; }
  __device__ int headOf(int half) const { return kvHead * group + rowOf(half) % group; }

  /// Takes chunks [firstChunk, endChunk), as AttentionWork has it.
  __device__ void run(int firstChunk, int endChunk, int state) {
    constexpr int kTiles = kKvChunk / kKvTile;
    const int begin = max(all.first / kKvTile, firstChunk * kTiles);
    const int end = min(all.last / kKvTile + 1, endChunk * kTiles);
    if (begin >= end) return;
    loadQueries();
    for (int half = 0; half < 2; ++half) total[half] = {-kInfinity, 0.0f};
    for (int i = 0; i < kColumns * 4; ++i) totals[i] = 0.0f;
    beginChunk();
    loadKeys(begin);
    for (int i = begin; i < end; ++i) {
      attendTile(i, end);
      if ((i + 1) % (kKvChunk / kKvTile) == 0 || i + 1 == end) {
        const int chunk = i * kKvTile / kKvChunk;
        if (isWhole(state)) mergeChunk();
        else storePartial(state + chunk);
        beginChunk();
      }
    }
    if (isWhole(state)) store();
  }

  __device__ bool isWhole(int state) const { return kIsScheduled ? state == kWholeWork : p.partials == nullptr; }

  __device__ static int min(int a, int b) { return a < b ? a : b; }
  __device__ static int max(int a, int b) { return a < b ? b : a; }

  __device__ void loadQueries() {
    for (int i = thread(); i < threads() / 2 * kWidth; i += threads()) {
      const int row = i / kWidth, d = i % kWidth;
      float value = 0.0f;
      if (row < tile.numTokens * group && d < p.kv.headDim) {
        const int64_t head = kvHead * group + row % group;
        value = p.q[(firstRow + row / group) * p.qStride + head * p.kv.headDim + d];
      }
      pieceOf<kWidth>(queries, row, d / 8)[d % 8] = floatToBf16(value);
    }
  }

  __device__ void loadKeys(int tileIndex) { load<kWidth>(keys, 0, tileIndex, 0); }
  __device__ void loadValues(int tileIndex) { load<kValueWidth>(values, 1, tileIndex, firstColumn); }

  /// Begins to load columns of the keys (kind 0) or values (1) of a tile. What no row sees is zero: it may be anything.
  template <int kColumns>
  __device__ void load(uint16_t* into, int kind, int tileIndex, int column) {
    constexpr int kPieces = kColumns / 8;
    const KvRow& kv = p.kv;
    const int32_t* table = p.blockTables + static_cast<int64_t>(tile.sequence) * p.maxBlocks;
#pragma unroll(kWidth == 256 ? 1 : 2)  // heads of 256 have no registers left
    for (int i = thread(); i < kKvTile * kPieces; i += threads()) {
      const int at = i / kPieces, piece = i % kPieces, position = tileIndex * kKvTile + at;
      const int from = column + piece * 8;
      const bool isSeen = position >= all.first && position <= all.last && from < kv.headDim;
      uint16_t* const to = pieceOf<kColumns>(into, at, piece);
      if (isSeen) {
        const KvPlace place(kv, table[position / kv.blockSize], kind, kvHead, position % kv.blockSize);
        copyPiece<kForm>(to, place, from);
      } else {
        copyAsync16(to, kv.data, 0);
      }
    }
    commitCopies();
  }

  __device__ void beginChunk() {
    for (int half = 0; half < 2; ++half) chunk[half] = {-kInfinity, 0.0f};
#pragma unroll
    for (int d = 0; d < kColumns; ++d) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[d][i] = 0.0f;
    }
  }

  /// Values are loaded while scores are computed, and the next keys while values are added up.
  __device__ void attendTile(int tileIndex, int end) {
    loadValues(tileIndex);
    waitForCopies<1>();
    expandTile<kWidth, kForm>(keys);
    __syncthreads();
    multiplyKeys();
    __syncthreads();  // the keys have been read
    if (tileIndex + 1 < end) loadKeys(tileIndex + 1);
    else commitCopies();
    scale();
    weigh(tileIndex);
    waitForCopies<1>();
    expandTile<kValueWidth, kForm>(values);
    __syncthreads();
    multiplyValues();
    __syncthreads();  // the values have been read
  }

  /// scores = queries · keysᵀ
  __device__ void multiplyKeys() {
#pragma unroll
    for (int n = 0; n < kKeys; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[n][i] = 0.0f;
    }
#pragma unroll 1
    for (int d = 0; d < kWidth / 8; d += 4) {
      uint32_t q[2][4];
      loadMatrices<false>(q[0], pieceOf<kWidth>(queries, warp() * 16 + lane() % 16, d + lane() / 16));
      loadMatrices<false>(q[1], pieceOf<kWidth>(queries, warp() * 16 + lane() % 16, d + 2 + lane() / 16));
#pragma unroll
      for (int n = 0; n < kKeys; ++n) {
        uint32_t k[4];
        loadMatrices<false>(k, pieceOf<kWidth>(keys, n * 8 + lane() % 8, d + lane() / 8));
        multiplyAdd(scores[n], q[0], k[0], k[1]);
        multiplyAdd(scores[n], q[1], k[2], k[3]);
      }
    }
  }

  /// Makes products into scores.
  __device__ void scale() {
#pragma unroll
    for (int n = 0; n < kKeys; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scores[n][i] *= p.scale;
        if (p.softcap > 0.0f) scores[n][i] = p.softcap * hyperbolicTangent(scores[n][i] / p.softcap);
      }
    }
  }

  /// Makes scores into weights, relative to the largest score of the chunk so far.
  __device__ void weigh(int tileIndex) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = chunk[half].largest;
#pragma unroll
      for (int n = 0; n < kKeys; ++n) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          const int position = tileIndex * kKvTile + n * 8 + lane() % 4 * 2 + i % 2;
          if (position < sight[half].first || position > sight[half].last) scores[n][i] = -kInfinity;
          largest = largest < scores[n][i] ? scores[n][i] : largest;
        }
      }
      // The four lanes of a row.
      largest = Max()(largest, shuffleXor<1>(largest));
      largest = Max()(largest, shuffleXor<2>(largest));
      weighRow(half, largest);
    }
  }

  __device__ void weighRow(int half, float largest) {
    // A row that has seen nothing yet has only weights of 0.
    const float origin = largest == -kInfinity ? 0.0f : largest;
    const float factor = exponential(chunk[half].largest - origin);
    float weight = 0.0f;
#pragma unroll
    for (int n = 0; n < kKeys; ++n) {
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        scores[n][i] = exponential(scores[n][i] - origin);
        weight += scores[n][i];
      }
    }
    chunk[half] = {largest, chunk[half].weight * factor + weight};
#pragma unroll
    for (int d = 0; d < kColumns; ++d) {
      sums[d][2 * half] *= factor;
      sums[d][2 * half + 1] *= factor;
    }
  }

  /// sums += weights · values
  __device__ void multiplyValues() {
#pragma unroll
    for (int n = 0; n < kKeys; n += 2) {
      const uint32_t weights[4] = {packBf16(scores[n][0], scores[n][1]), packBf16(scores[n][2], scores[n][3]),
                                   packBf16(scores[n + 1][0], scores[n + 1][1]),
                                   packBf16(scores[n + 1][2], scores[n + 1][3])};
#pragma unroll
      for (int d = 0; d < kColumns; d += 2) {
        uint32_t v[4];
        loadMatrices<true>(v, pieceOf<kValueWidth>(values, n * 8 + lane() % 16, d + lane() / 16));
        multiplyAdd(sums[d], weights, v[0], v[1]);
        multiplyAdd(sums[d + 1], weights, v[2], v[3]);
      }
    }
  }

  /// The four lanes of a row have its weights.
  __device__ void sumWeights() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      chunk[half].weight += shuffleXor<1>(chunk[half].weight);
      chunk[half].weight += shuffleXor<2>(chunk[half].weight);
    }
  }

  /// Adds a chunk to those before it.
  __device__ void mergeChunk() {
    sumWeights();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Merge factors = merge(total[half], chunk[half]);
#pragma unroll
      for (int d = 0; d < kColumns; ++d) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          float& sum = totals[d * 4 + i];
          sum = sum * factors.ofBefore + sums[d][i] * factors.ofNext;
        }
      }
    }
  }

  /// Leaves the state of a chunk for svcAttentionCombine or svcAttentionMerge.
  __device__ void storePartial(int index) {
    sumWeights();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!isRow(half)) continue;
      float* partial = partialOf(half, index);
      const int before = kIsScheduled ? firstColumn : 0;
      partial[0] = chunk[half].largest;
      partial[1] = chunk[half].weight;
      eachColumn(*this, half, [&](int column, int d, int i) { partial[2 + column - before] = sums[d][i]; });
    }
  }

  __device__ float* partialOf(int half, int index) const {
    if constexpr (kIsScheduled) {
      const int64_t row = static_cast<int64_t>(index) * (threads() / 2) + rowOf(half);
      return p.partials + row * (kValueWidth + 2);
    }
    const int64_t row = static_cast<int64_t>(tokenOf(half)) * p.heads + headOf(half);
    return p.partials + (row * p.maxChunks + index) * (p.kv.headDim + 2);
  }

  __device__ void store() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!isRow(half)) continue;
      const float factor = finish(total[half], p.sinks, headOf(half));
      uint16_t* out = static_cast<uint16_t*>(p.out) + tokenOf(half) * p.outStride + static_cast<int64_t>(headOf(half)) * p.kv.headDim;
      eachColumn(*this, half, [&](int column, int d, int i) { out[column] = resultOf(totals[d * 4 + i], factor); });
    }
  }
};

SVC_KERNEL(svcAttention64, AttentionParams, kAttentionThreads) { Attention<64, KvForm::Bf16, false>::compute(p); }
SVC_KERNEL(svcAttention128, AttentionParams, kAttentionThreads) { Attention<128, KvForm::Bf16, false>::compute(p); }
SVC_KERNEL(svcAttention256, AttentionParams, kAttentionThreads) { Attention<256, KvForm::Bf16, false>::compute(p); }

SVC_KERNEL(svcScheduledAttention64, AttentionParams, kAttentionThreads) { Attention<64, KvForm::Bf16, true>::compute(p); }
SVC_KERNEL(svcScheduledAttention128, AttentionParams, kAttentionThreads) { Attention<128, KvForm::Bf16, true>::compute(p); }
SVC_KERNEL(svcScheduledAttention256, AttentionParams, kAttentionThreads) { Attention<256, KvForm::Bf16, true>::compute(p); }

SVC_KERNEL(svcFp8Attention64, AttentionParams, kAttentionThreads) { Attention<64, KvForm::Fp8, false>::compute(p); }
SVC_KERNEL(svcFp8Attention128, AttentionParams, kAttentionThreads) { Attention<128, KvForm::Fp8, false>::compute(p); }
SVC_KERNEL(svcFp8Attention256, AttentionParams, kAttentionThreads) { Attention<256, KvForm::Fp8, false>::compute(p); }

SVC_KERNEL(svcInt8Attention64, AttentionParams, kAttentionThreads) { Attention<64, KvForm::Int8, false>::compute(p); }
SVC_KERNEL(svcInt8Attention128, AttentionParams, kAttentionThreads) { Attention<128, KvForm::Int8, false>::compute(p); }
SVC_KERNEL(svcInt8Attention256, AttentionParams, kAttentionThreads) { Attention<256, KvForm::Int8, false>::compute(p); }

SVC_KERNEL(svcAttentionCombine, AttentionParams, kCombineThreads) {
  const int token = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y), sequence = sequenceOf(p, token);
  const Sight sight = sightOf(p, sequence, token - p.queryStarts[sequence]);
  const int64_t row = static_cast<int64_t>(token) * p.heads + head;
  for (int column = thread(); column < p.kv.headDim; column += threads()) {
    Progress total = {-kInfinity, 0.0f};
    float sum = 0.0f;
    for (int chunk = sight.first / kKvChunk; chunk <= sight.last / kKvChunk; ++chunk) {
      const float* partial = p.partials + (row * p.maxChunks + chunk) * (p.kv.headDim + 2);
      const Merge factors = merge(total, {partial[0], partial[1]});
      sum = sum * factors.ofBefore + partial[2 + column] * factors.ofNext;
    }
    const float factor = finish(total, p.sinks, head);
    static_cast<uint16_t*>(p.out)[token * p.outStride + static_cast<int64_t>(head) * p.kv.headDim + column] = resultOf(sum, factor);
  }
}

/// A block for each cut: a tile and KV head whose chunks several blocks took.
SVC_KERNEL(svcAttentionMerge, AttentionParams, kCombineThreads) {
  if (static_cast<int>(blockIdx.x) >= p.schedule.counts[1]) return;
  const AttentionWork& cut = p.schedule.cuts[blockIdx.x];
  const int columns = valueWidth(attentionWidth(p.kv.headDim)), group = p.heads / p.kv.kvHeads;
  const int kvHead = cut.part % p.kv.kvHeads, firstColumn = cut.part / p.kv.kvHeads * columns;
  const int64_t state = static_cast<int64_t>(p.rowsPerBlock) * (columns + 2);
  for (int i = thread(); i < cut.tile.numTokens * group * columns; i += threads()) {
    const int row = i / columns, column = firstColumn + i % columns;
    if (column >= p.kv.headDim) continue;
    Progress total = {-kInfinity, 0.0f};
    float sum = 0.0f;
    const float* partial = p.partials + (cut.state + cut.firstChunk) * state + static_cast<int64_t>(row) * (columns + 2);
    for (int chunk = cut.firstChunk; chunk < cut.endChunk; ++chunk, partial += state) {
      const Merge factors = merge(total, {partial[0], partial[1]});
      sum = sum * factors.ofBefore + partial[2 + i % columns] * factors.ofNext;
    }
    const int head = kvHead * group + row % group;
    const int64_t token = p.queryStarts[cut.tile.sequence] + cut.tile.firstToken + row / group;
    static_cast<uint16_t*>(p.out)[token * p.outStride + static_cast<int64_t>(head) * p.kv.headDim + column] = resultOf(sum, finish(total, p.sinks, head));
  }
}

}  // namespace svc::cuda
