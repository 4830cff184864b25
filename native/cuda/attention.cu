// Attention over paged keys and values. A row is one query head of one token; a warp takes 16 rows, or several share them, and all query
// heads of a KV head share what is loaded. A row walks tiles of 64 tokens at absolute positions, and merges the states of chunks of 256 in order. A
// block may take all chunks of its rows or a single one: the order of the sums is the same, and a tile that a row does not see
// changes no bit of it. So prefill and decode, in any chunking, have the same results.

#include "kv.cuh"

namespace svc::cuda {

/// Heads of kWidth numbers, kept as kForm. A block adds up valueWidth(kWidth) columns of the values: those of 256 would not fit in registers, and 512 only
/// where warps share them.
/// kSharing warps share 16 rows: each multiplies some of the keys, weighs the scores of all, and adds up some of the columns. The grid says
/// what a block takes, or a schedule.
template <int kWidth, KvForm kForm, int kSharing, bool kIsScheduled>
struct Attention {
  static constexpr int kRows = kSharing > 1 ? kFewRows : manyRows(kWidth), kThreads = attentionThreads(kWidth, kRows);
  static constexpr int kStages = attentionStages(kWidth);
  static constexpr int kValueWidth = valueWidth(kWidth);
  static constexpr bool kIsCut = kValueWidth < kWidth;
  static constexpr bool kSharesPlace = sharesPlace(kWidth);
  static constexpr int kTileNumbers = kKvTile * (kWidth + (kSharesPlace ? 0 : kValueWidth));
  static constexpr int kColumns = kValueWidth / kSharing / 8, kKeys = kKvTile / 8;  // matrices of 8
  static constexpr int kOwnKeys = kKeys / kSharing;
  static constexpr bool kSharesTotals = kSharing == 1;  // all in registers would be too many
  static constexpr bool kHoldsQueries = holdsQueries(kRows, kWidth);  // in registers
  static_assert(kThreads == kRows / 16 * kSharing * kWarp && sizeof(KvPlace) == kKvPlaceBytes);
  static_assert(!kSharesPlace || (kSharing > 1 && kStages == 1 && kValueWidth == kWidth));

  struct alignas(16) Quad {
    float of[4];
  };

  const AttentionParams& p;
  const AttentionTile tile;
  const int kvHead, blockColumn, firstColumn, group, firstRow;
  Sight all;   // of the tile
  Sight each;  // what every row sees
  Sight sight[2];
  Progress total[2], chunk[2];
  float ownTotals[kSharesTotals ? 1 : kColumns * 4];
  uint32_t held[kHoldsQueries ? kWidth / 16 : 1][4];  // queries
  float sums[kColumns][4];
  float scores[kKeys][4];

  __device__ static void compute(const AttentionParams& p) {
    if constexpr (kIsScheduled) {
      if (static_cast<int>(blockIdx.x) >= p.schedule.counts[0]) return awaitBefore();
      const AttentionWork& work = p.schedule.works[blockIdx.x];
      Attention(p, work.tile, work.part).run(work.firstChunk, work.endChunk, work.state);
    } else {
      const int chunk = static_cast<int>(blockIdx.z);
      const bool isWhole = p.partials == nullptr;
      // The last tokens see the most: blocks that begin late should be short.
      const AttentionTile& tile = p.tiles[gridDim.x - 1 - blockIdx.x];
      Attention(p, tile, static_cast<int>(blockIdx.y)).run(isWhole ? 0 : chunk, isWhole ? p.maxChunks : chunk + 1, 0);
    }
  }

  __device__ Attention(const AttentionParams& params, const AttentionTile& tile, int part)
      : p(params),
        tile(tile),
        kvHead(kIsCut ? part % params.kv.kvHeads : part),
        blockColumn(kIsCut ? part / params.kv.kvHeads * kValueWidth : 0),
        firstColumn(blockColumn + warp() % kSharing * kColumns * 8),
        group(params.heads / params.kv.kvHeads),
        firstRow(params.queryStarts[tile.sequence] + tile.firstToken) {
    const Sight first = sightOf(p, tile.sequence, tile.firstToken);
    const Sight last = sightOf(p, tile.sequence, tile.firstToken + tile.numTokens - 1);
    all = {first.first, last.last};
    each = {last.first, first.last};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      sight[half] = isRow(half) ? sightOf(p, tile.sequence, tile.firstToken + rowOf(half) / group) : Sight{0, -1};
    }
  }

  // Shared memory, in this order. Addresses that are constants take no registers.
  __device__ static uint16_t* keysOf(int tileIndex) {
    return reinterpret_cast<uint16_t*>(dynamicShared()) + tileIndex % kStages * kTileNumbers;
  }
  __device__ static uint16_t* valuesOf(int tileIndex) { return keysOf(tileIndex) + (kSharesPlace ? 0 : kKvTile * kWidth); }
  __device__ static KvPlace* placesOf(int tileIndex) {
    return reinterpret_cast<KvPlace*>(keysOf(0) + kStages * kTileNumbers) + tileIndex % 2 * kKvTile;
  }
  /// Those that are held pass through the place of the second tile, which is loaded once the first one is there.
  __device__ static uint16_t* queries(int begin) {
    static_assert(!kHoldsQueries || kRows == kKvTile);
    return kHoldsQueries ? keysOf(begin + 1) : reinterpret_cast<uint16_t*>(placesOf(0) + 2 * kKvTile);
  }
  /// Behind all that is loaded: totals, or scores that are shared.
  __device__ static float* numbers() {
    return reinterpret_cast<float*>(reinterpret_cast<uint16_t*>(placesOf(0) + 2 * kKvTile) + (kHoldsQueries ? 0 : kRows * kWidth));
  }
  /// The scores of a lane, as `multiplyAdd` leaves them.
  __device__ static Quad& sharedScores(int key) { return reinterpret_cast<Quad*>(numbers())[key * kWarp + lane()]; }

  /// The sum of all chunks so far.
  __device__ float& totalOf(int d, int i) {
    if constexpr (kSharesTotals) return numbers()[thread() * sumStride(kValueWidth) + d * 4 + i];
    else return ownTotals[d * 4 + i];
  }

  /// A thread has numbers of two of the block's rows.
  __device__ static int warpRow() { return warp() / kSharing * 16; }
  __device__ static int rowOf(int half) { return warpRow() + lane() / 4 + half * 8; }
  __device__ bool isRow(int half) const { return rowOf(half) < tile.numTokens * group; }
  /// Whether any thread of the warp has one.
  __device__ bool hasRows(int half) const { return warpRow() + half * 8 < tile.numTokens * group; }
  __device__ int tokenOf(int half) const { return firstRow + rowOf(half) / group; }
  __device__ int headOf(int half) const { return kvHead * group + rowOf(half) % group; }
  __device__ static int firstKey() { return warp() % kSharing * kOwnKeys; }

  /// Takes chunks [firstChunk, endChunk), as AttentionWork has it.
  __device__ void run(int firstChunk, int endChunk, int state) {
    constexpr int kTiles = kKvChunk / kKvTile;
    const int begin = max(all.first / kKvTile, firstChunk * kTiles);
    const int end = min(all.last / kKvTile + 1, endChunk * kTiles);
    if (begin >= end) return awaitBefore();
    findPlaces(begin);
    findPlaces(begin + 1);
    awaitBefore();  // what the host has sent is read by then
    beginLoads(begin, end);
    loadQueries(queries(begin));
    if constexpr (kHoldsQueries) {
      __syncthreads();  // the queries are there
#pragma unroll
      for (int d = 0; d < kWidth / 16; ++d) takeQueries(held[d], queries(begin), d);
    }
    for (int half = 0; half < 2; ++half) total[half] = {-kInfinity, 0.0f};
#pragma unroll
    for (int i = 0; i < kColumns * 4; ++i) totalOf(i / 4, i % 4) = 0.0f;
    for (int i = begin; i < end;) {
      beginChunk();
      do attendTile(i, end);
      while (++i < end && i % kTiles != 0);
      if (isWhole(state)) mergeChunk();
      else storePartial(state + (i - 1) / kTiles);
    }
    if (isWhole(state)) store();
  }

  __device__ bool isWhole(int state) const { return kIsScheduled ? state == kWholeWork : p.partials == nullptr; }

  __device__ static int min(int a, int b) { return a < b ? a : b; }
  __device__ static int max(int a, int b) { return a < b ? b : a; }

  __device__ void beginLoads(int begin, int end) {
    __syncthreads();  // the places are there
    if constexpr (kHoldsQueries) {
      loadTile(begin, end);
    } else {
#pragma unroll
      for (int i = 0; i < kStages; ++i) {
        loadKeys(begin + i, end);
        if constexpr (!kSharesPlace) loadValues(begin + i, end);
      }
    }
  }

  __device__ void loadQueries(uint16_t* into) {
    constexpr int kPieces = kWidth / 8;
#pragma unroll 4
    for (int i = thread(); i < kRows * kPieces; i += kThreads) {
      const int row = i / kPieces, column = i % kPieces * 8;
      Quad low{}, high{};
      if (row < tile.numTokens * group && column < p.kv.headDim) {
        const int64_t head = kvHead * group + row % group;
        const auto* const from = reinterpret_cast<const Quad*>(p.q + (firstRow + row / group) * p.qStride + head * p.kv.headDim + column);
        low = from[0];
        high = from[1];
      }
      *reinterpret_cast<Piece*>(pieceOf<kWidth>(into, row, i % kPieces)) = {
          {packHalves(low.of[0], low.of[1]), packHalves(low.of[2], low.of[3]), packHalves(high.of[0], high.of[1]), packHalves(high.of[2], high.of[3])}};
    }
  }

  /// 16 columns of the warp's rows.
  __device__ static void takeQueries(uint32_t (&q)[4], uint16_t* from, int d) {
    loadMatrices<false>(q, pieceOf<kWidth>(from, warpRow() + lane() % 16, d * 2 + lane() / 16));
  }

  __device__ bool isSeen(int position) const { return position >= all.first && position <= all.last; }

  /// Finds the keys of a tile, of each token once: a copy waits for no block table.
  __device__ void findPlaces(int tileIndex) { findPlaces(tileIndex, blockOf(tileIndex)); }
  __device__ void findPlaces(int tileIndex, int block) {
    if (thread() >= kKvTile) return;
    placesOf(tileIndex)[thread()] = KvPlace(p.kv, block, 0, kvHead, (tileIndex * kKvTile + thread()) % p.kv.blockSize);
  }
  /// Of the token of a tile that the thread finds the place of.
  __device__ int blockOf(int tileIndex) const {
    const int position = tileIndex * kKvTile + thread();
    if (thread() >= kKvTile || !isSeen(position)) return 0;
    return p.blockTables[static_cast<int64_t>(tile.sequence) * p.maxBlocks + position / p.kv.blockSize];
  }

  __device__ void loadKeys(int tileIndex, int end) {
    if (tileIndex < end) load<kWidth, true, false>(tileIndex);
    commitCopies();
  }
  __device__ void loadValues(int tileIndex, int end) {
    if (tileIndex < end) load<kValueWidth, false, true>(tileIndex);
    commitCopies();
  }
  __device__ void loadTile(int tileIndex, int end) {
    if (tileIndex < end) load<kWidth, true, true>(tileIndex);
    commitCopies();
  }

  /// Begins to load a tile, of rows of kLoaded numbers. What no row sees is zero: it may be anything.
  template <int kLoaded, bool kHasKeys, bool kHasValues>
  __device__ void load(int tileIndex) {
    constexpr int kPieces = kLoaded / 8, kTokens = kThreads / kPieces;  // of which the threads take a piece each
    constexpr int kBatch = kWidth >= 256 ? 1 : kKvTile / kTokens;  // wide heads have no registers left
    const int piece = thread() % kPieces, valuesBehind = p.kv.kvHeads * p.kv.blockSize;
    const KvPlace* const places = placesOf(tileIndex) + thread() / kPieces;
    const auto copy = [&](uint16_t* to, const KvPlace& place, int at, int column) {
      const bool isHere = isSeen(tileIndex * kKvTile + at) && column < p.kv.headDim;
      copyPiece<kForm>(pieceOf<kLoaded>(to, at, piece), place, column, isHere);
    };
#pragma unroll 1
    for (int first = 0; first < kKvTile; first += kBatch * kTokens) {
      // No copy waits for the place of another one.
      KvPlace here[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) here[i] = places[first + i * kTokens];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int at = thread() / kPieces + first + i * kTokens;
        if constexpr (kHasKeys) copy(keysOf(tileIndex), here[i], at, piece * 8);
        if constexpr (kHasValues) copy(valuesOf(tileIndex), here[i].next(p.kv, valuesBehind), at, blockColumn + piece * 8);
      }
    }
  }

  __device__ void beginChunk() {
    for (int half = 0; half < 2; ++half) chunk[half] = {-kInfinity, 0.0f};
#pragma unroll
    for (int d = 0; d < kColumns; ++d) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[d][i] = 0.0f;
    }
  }

  __device__ void attendTile(int tileIndex, int end) {
    if constexpr (kHoldsQueries) attendWhole(tileIndex, end);
    else if constexpr (kSharesPlace) attendInOnePlace(tileIndex, end);
    else attendInTurns(tileIndex, end);
  }

  /// The next tile is loaded in the place of the one before, while this one is multiplied.
  __device__ void attendWhole(int tileIndex, int end) {
    waitForCopies<0>();
    expandTile<kWidth, kForm>(keysOf(tileIndex));
    expandTile<kValueWidth, kForm>(valuesOf(tileIndex));
    __syncthreads();  // all of this one is there, and the one before has been read
    loadTile(tileIndex + 1, end);
    const int block = blockOf(tileIndex + 2);
    score(tileIndex);
    if (hasRows(0)) weigh();  // a warp may have none
    multiplyValues(valuesOf(tileIndex));
    findPlaces(tileIndex + 2, block);
  }

  /// Keys are loaded while values are multiplied, and values while keys are.
  __device__ void attendInTurns(int tileIndex, int end) {
    constexpr int kLoads = 2 * kStages - 1;  // that may be on their way still
    waitForCopies<kLoads>();
    expandTile<kWidth, kForm>(keysOf(tileIndex));
    __syncthreads();
    const int block = blockOf(tileIndex + 2);
    score(tileIndex);
    if constexpr (kSharing > 1) shareScores();
    findPlaces(tileIndex + 2, block);
    __syncthreads();  // the keys have been read
    loadKeys(tileIndex + kStages, end);
    if constexpr (kSharing > 1) takeScores();
    weigh();
    waitForCopies<kLoads>();
    expandTile<kValueWidth, kForm>(valuesOf(tileIndex));
    __syncthreads();
    multiplyValues(valuesOf(tileIndex));
    __syncthreads();  // the values have been read
    loadValues(tileIndex + kStages, end);
  }

  /// Values are loaded in the place of their keys, and the next keys in that of the values.
  __device__ void attendInOnePlace(int tileIndex, int end) {
    waitForCopies<0>();
    expandTile<kWidth, kForm>(keysOf(tileIndex));
    __syncthreads();  // the keys are there
    const int block = blockOf(tileIndex + 2);
    score(tileIndex);
    shareScores();
    __syncthreads();  // they have been read, and the scores are there
    loadValues(tileIndex, end);
    takeScores();
    weigh();
    waitForCopies<0>();
    expandTile<kValueWidth, kForm>(valuesOf(tileIndex));
    __syncthreads();  // the values are there, and the places of this tile have been read
    findPlaces(tileIndex + 2, block);
    multiplyValues(valuesOf(tileIndex));
    __syncthreads();  // the values are read, and the places are there
    loadKeys(tileIndex + 1, end);
  }

  __device__ void score(int tileIndex) {
    multiplyKeys(keysOf(tileIndex));
    scale();
    if (!isSeenByEach(tileIndex)) mask(tileIndex);
  }

  /// scores = queries · keysᵀ
  __device__ void multiplyKeys(uint16_t* keys) {
#pragma unroll
    for (int n = 0; n < kOwnKeys; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[n][i] = 0.0f;
    }
    const LanePieces<kWidth> lanes(keys, firstKey() * 8 + lane() % 8, lane() / 8);
#pragma unroll(kHoldsQueries ? kWidth / 32 : kSharing > 1 ? 4 : 1)
    for (int d = 0; d < kWidth / 16; d += 2) {
      uint32_t taken[2][4];
      if constexpr (!kHoldsQueries) {
        takeQueries(taken[0], queries(0), d);
        takeQueries(taken[1], queries(0), d + 1);
      }
      const auto* const q = kHoldsQueries ? held + d : taken;
#pragma unroll
      for (int n = 0; n < kOwnKeys; ++n) {
        uint32_t k[4];
        loadMatrices<false>(k, lanes.at(n * 8, d * 2));
        multiplyAdd(scores[n], q[0], k[0], k[1]);
        multiplyAdd(scores[n], q[1], k[2], k[3]);
      }
    }
  }

  /// Makes products into scores.
  __device__ void scale() {
    eachScore([&](float& score, int, int) { score *= p.scale; });
    if (p.softcap > 0.0f) eachScore([&](float& score, int, int) { score = p.softcap * hyperbolicTangent(score / p.softcap); });
  }

  __device__ bool isSeenByEach(int tileIndex) const {
    return tileIndex * kKvTile >= each.first && tileIndex * kKvTile + kKvTile - 1 <= each.last;
  }

  __device__ void mask(int tileIndex) {
    const int position = tileIndex * kKvTile + firstKey() * 8 + lane() % 4 * 2;
    const Sight seen[2] = {{sight[0].first - position, sight[0].last - position}, {sight[1].first - position, sight[1].last - position}};
    eachScore([&](float& score, int n, int i) {
      if (n * 8 + i % 2 < seen[i / 2].first || n * 8 + i % 2 > seen[i / 2].last) score = -kInfinity;
    });
  }

  template <class Use>
  __device__ void eachScore(const Use& use) {
#pragma unroll
    for (int n = 0; n < kOwnKeys; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) use(scores[n][i], n, i);
    }
  }

  __device__ void shareScores() {
#pragma unroll
    for (int n = 0; n < kOwnKeys; ++n) sharedScores(firstKey() + n) = {{scores[n][0], scores[n][1], scores[n][2], scores[n][3]}};
  }

  __device__ void takeScores() {
#pragma unroll
    for (int n = 0; n < kKeys; ++n) {
      const Quad taken = sharedScores(n);
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[n][i] = taken.of[i];
    }
  }

  /// Makes scores into weights, relative to the largest score of the chunk so far. What is in no row may be anything.
  __device__ void weigh() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (kSharing > 1 && !hasRows(half)) continue;
      float largest = chunk[half].largest;
#pragma unroll
      for (int n = 0; n < kKeys; ++n) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) largest = larger(largest, scores[n][i]);
      }
      // The four lanes of a row.
      largest = larger(largest, shuffleXor<1>(largest));
      largest = larger(largest, shuffleXor<2>(largest));
      weighRow(half, largest);
    }
  }

  __device__ void weighRow(int half, float largest) {
    // A row that has seen nothing yet has only weights of 0.
    const float origin = largest == -kInfinity ? 0.0f : largest;
    const float factor = boundedExponential(chunk[half].largest - origin);
    float weight = 0.0f;
#pragma unroll
    for (int n = 0; n < kKeys; ++n) {
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        scores[n][i] = boundedExponential(scores[n][i] - origin);
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
  __device__ void multiplyValues(uint16_t* values) {
    const LanePieces<kValueWidth> lanes(values, lane() % 16, (firstColumn - blockColumn) / 8 + lane() / 16);
#pragma unroll
    for (int n = 0; n < kKeys; n += 2) {
      const uint32_t weights[4] = {packHalves(scores[n][0], scores[n][1]), packHalves(scores[n][2], scores[n][3]),
                                   packHalves(scores[n + 1][0], scores[n + 1][1]),
                                   packHalves(scores[n + 1][2], scores[n + 1][3])};
#pragma unroll
      for (int d = 0; d < kColumns; d += 2) {
        uint32_t v[4];
        loadMatrices<true>(v, lanes.at(n * 8, d));
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
          totalOf(d, i) = totalOf(d, i) * factors.ofBefore + sums[d][i] * factors.ofNext;
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
      const int before = kIsScheduled ? blockColumn : 0;
      partial[0] = chunk[half].largest;
      partial[1] = chunk[half].weight;
      eachPair(*this, half, [&](int column, int d, int i) {
        partial[2 + column - before] = sums[d][i];
        partial[3 + column - before] = sums[d][i + 1];
      });
    }
  }

  __device__ float* partialOf(int half, int index) const {
    if constexpr (kIsScheduled) {
      const int64_t row = static_cast<int64_t>(index) * kRows + rowOf(half);
      return p.partials + row * (kValueWidth + 2);
    }
    const int row = tokenOf(half) * p.heads + headOf(half);
    return p.partials + (static_cast<int64_t>(row) * p.maxChunks + index) * (p.kv.headDim + 2);
  }

  __device__ void store() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!isRow(half)) continue;
      const float factor = finish(total[half], p.sinks, headOf(half));
      uint16_t* out = static_cast<uint16_t*>(p.out) + tokenOf(half) * p.outStride + static_cast<int64_t>(headOf(half)) * p.kv.headDim;
      eachPair(*this, half, [&](int column, int d, int i) { storeResults(out + column, totalOf(d, i), totalOf(d, i + 1), factor); });
    }
  }
};

SVC_EARLY_KERNEL(svcAttention64, AttentionParams, kAttentionThreads) { Attention<64, KvForm::Half, 1, false>::compute(p); }
SVC_EARLY_KERNEL(svcAttention128, AttentionParams, kAttentionThreads) { Attention<128, KvForm::Half, 1, false>::compute(p); }
SVC_EARLY_KERNEL(svcAttention256, AttentionParams, kAttentionThreads) { Attention<256, KvForm::Half, 1, false>::compute(p); }

SVC_EARLY_KERNEL(svcFewAttention64, AttentionParams, kAttentionThreads) { Attention<64, KvForm::Half, fewSharing(64), false>::compute(p); }
SVC_EARLY_KERNEL(svcFewAttention128, AttentionParams, kAttentionThreads) { Attention<128, KvForm::Half, fewSharing(128), false>::compute(p); }
SVC_EARLY_KERNEL(svcFewAttention256, AttentionParams, kAttentionThreads) { Attention<256, KvForm::Half, fewSharing(256), false>::compute(p); }
SVC_EARLY_KERNEL(svcFewAttention512, AttentionParams, kWidestThreads) { Attention<512, KvForm::Half, fewSharing(512), false>::compute(p); }

SVC_EARLY_KERNEL(svcScheduledAttention64, AttentionParams, kAttentionThreads) { Attention<64, KvForm::Half, 1, true>::compute(p); }
SVC_EARLY_KERNEL(svcScheduledAttention128, AttentionParams, kAttentionThreads) { Attention<128, KvForm::Half, 1, true>::compute(p); }
SVC_EARLY_KERNEL(svcScheduledAttention256, AttentionParams, kAttentionThreads) { Attention<256, KvForm::Half, 1, true>::compute(p); }

SVC_EARLY_KERNEL(svcScheduledFewAttention64, AttentionParams, kAttentionThreads) { Attention<64, KvForm::Half, fewSharing(64), true>::compute(p); }
SVC_EARLY_KERNEL(svcScheduledFewAttention128, AttentionParams, kAttentionThreads) { Attention<128, KvForm::Half, fewSharing(128), true>::compute(p); }
SVC_EARLY_KERNEL(svcScheduledFewAttention256, AttentionParams, kAttentionThreads) { Attention<256, KvForm::Half, fewSharing(256), true>::compute(p); }
SVC_EARLY_KERNEL(svcScheduledFewAttention512, AttentionParams, kWidestThreads) { Attention<512, KvForm::Half, fewSharing(512), true>::compute(p); }

SVC_EARLY_KERNEL(svcFp8Attention64, AttentionParams, kAttentionThreads) { Attention<64, KvForm::Fp8, 1, false>::compute(p); }
SVC_EARLY_KERNEL(svcFp8Attention128, AttentionParams, kAttentionThreads) { Attention<128, KvForm::Fp8, 1, false>::compute(p); }
SVC_EARLY_KERNEL(svcFp8Attention256, AttentionParams, kAttentionThreads) { Attention<256, KvForm::Fp8, 1, false>::compute(p); }

SVC_EARLY_KERNEL(svcFp8FewAttention64, AttentionParams, kAttentionThreads) { Attention<64, KvForm::Fp8, fewSharing(64), false>::compute(p); }
SVC_EARLY_KERNEL(svcFp8FewAttention128, AttentionParams, kAttentionThreads) { Attention<128, KvForm::Fp8, fewSharing(128), false>::compute(p); }
SVC_EARLY_KERNEL(svcFp8FewAttention256, AttentionParams, kAttentionThreads) { Attention<256, KvForm::Fp8, fewSharing(256), false>::compute(p); }
SVC_EARLY_KERNEL(svcFp8FewAttention512, AttentionParams, kWidestThreads) { Attention<512, KvForm::Fp8, fewSharing(512), false>::compute(p); }

SVC_EARLY_KERNEL(svcInt8Attention64, AttentionParams, kAttentionThreads) { Attention<64, KvForm::Int8, 1, false>::compute(p); }
SVC_EARLY_KERNEL(svcInt8Attention128, AttentionParams, kAttentionThreads) { Attention<128, KvForm::Int8, 1, false>::compute(p); }
SVC_EARLY_KERNEL(svcInt8Attention256, AttentionParams, kAttentionThreads) { Attention<256, KvForm::Int8, 1, false>::compute(p); }

SVC_EARLY_KERNEL(svcInt8FewAttention64, AttentionParams, kAttentionThreads) { Attention<64, KvForm::Int8, fewSharing(64), false>::compute(p); }
SVC_EARLY_KERNEL(svcInt8FewAttention128, AttentionParams, kAttentionThreads) { Attention<128, KvForm::Int8, fewSharing(128), false>::compute(p); }
SVC_EARLY_KERNEL(svcInt8FewAttention256, AttentionParams, kAttentionThreads) { Attention<256, KvForm::Int8, fewSharing(256), false>::compute(p); }
SVC_EARLY_KERNEL(svcInt8FewAttention512, AttentionParams, kWidestThreads) { Attention<512, KvForm::Int8, fewSharing(512), false>::compute(p); }

SVC_EARLY_KERNEL(svcAttentionCombine, AttentionParams, kCombineThreads) {
  const int token = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y), sequence = sequenceOf(p, token);
  const Sight sight = sightOf(p, sequence, token - p.queryStarts[sequence]);
  awaitBefore();
  const int64_t row = static_cast<int64_t>(token) * p.heads + head;
  for (int column = thread(); column < p.kv.headDim; column += threads()) {
    Progress total = {-kInfinity, 0.0f};
    float sum = 0.0f;
#pragma unroll 4
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
#pragma unroll 4
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
