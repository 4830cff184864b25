// Latent attention: all query heads share one KV head of many numbers, whose keys are its values. Four warps take 16 rows, a row being one
// query head of one token: each of them has 16 tokens of a tile for the scores, and a quarter of the columns for the sums. A tile is loaded once
// for both. Rows walk tiles and merge chunks as in attention.cu.

#include "kv.cuh"

namespace svc::cuda {

template <int kWidth, KvForm kForm>
struct LatentAttention {
  static constexpr int kColumns = kWidth / kLatentWarps / 8;  // matrices of 8 that a warp adds up
  static constexpr int kKeys = kKvTile / kLatentWarps / 8;
  static_assert(kColumns % 2 == 0 && kKeys == 2);

  const AttentionParams& p;
  const int stages;
  const AttentionTile tile;
  const int blockRows, parts, kvHead, firstHead, numHeads, firstColumn;
  Sight all;  // of the tile
  Progress total[2], chunk[2];
  float totals[kColumns][4];
  float sums[kColumns][4];
  float scores[kKeys][4];

  __device__ explicit LatentAttention(const LatentAttentionParams& params)
      : p(params.attention),
        stages(params.stages),
        tile(p.tiles[blockIdx.x]),
        blockRows(threads() / (2 * kLatentWarps)),
        parts(latentParts(group(), blockRows)),
        kvHead(static_cast<int>(blockIdx.y) / parts),
        firstHead(static_cast<int>(blockIdx.y) % parts * blockRows),
        numHeads(min(group() - firstHead, blockRows)),
        firstColumn(warp() % kLatentWarps * kColumns * 8) {
    all = {sightOf(p, tile.sequence, tile.firstToken).first,
           sightOf(p, tile.sequence, tile.firstToken + tile.numTokens - 1).last};
    for (int row = thread(); row < blockRows; row += threads()) {
      sights()[row] = isRowAt(row) ? sightOf(p, tile.sequence, tile.firstToken + row / numHeads) : Sight{0, -1};
    }
  }

  // Shared memory, in this order. Addresses that are constants take no registers.
  __device__ static float* numbersOf(int row) { return reinterpret_cast<float*>(dynamicShared()) + row * kLatentWarps; }
  /// [rows][warps]
  __device__ static float* largestOf(int row) { return numbersOf(row); }
  __device__ static float* weightOf(int row) { return numbersOf(kLatentRows + row); }
  /// [rows]: registers are few.
  __device__ static Sight* sights() { return reinterpret_cast<Sight*>(numbersOf(2 * kLatentRows)); }
  __device__ static uint16_t* weights() { return reinterpret_cast<uint16_t*>(sights() + kLatentRows); }
  __device__ static uint16_t* keysAt(int stage) { return weights() + kLatentRows * kKvTile + stage * kKvTile * kWidth; }
  __device__ uint16_t* keysOf(int tileIndex) const { return keysAt(stages > 1 ? tileIndex % 2 : 0); }
  __device__ uint16_t* queries() const { return keysAt(stages); }

  __device__ static int min(int a, int b) { return a < b ? a : b; }
  __device__ static int max(int a, int b) { return a < b ? b : a; }

  __device__ int group() const { return p.heads / p.kv.kvHeads; }
  __device__ int part() const { return warp() % kLatentWarps; }
  /// The first row of the warp's 16.
  __device__ int warpRow() const { return warp() / kLatentWarps * 16; }
  /// A thread has numbers of two of the block's rows.
  __device__ int rowOf(int half) const { return warpRow() + lane() / 4 + half * 8; }
  __device__ bool isRow(int half) const { return isRowAt(rowOf(half)); }
  __device__ bool isRowAt(int row) const { return row < tile.numTokens * numHeads; }
  __device__ int tokenAt(int row) const { return p.queryStarts[tile.sequence] + tile.firstToken + row / numHeads; }
  __device__ int headAt(int row) const { return kvHead * group() + firstHead + row % numHeads; }

  __device__ void run() {
    int begin = all.first / kKvTile, end = all.last / kKvTile + 1;
    if (p.partials != nullptr) {
      constexpr int kTiles = kKvChunk / kKvTile;
      const int chunk = static_cast<int>(blockIdx.z);
      begin = max(begin, chunk * kTiles);
      end = min(end, (chunk + 1) * kTiles);
      if (begin >= end) return;
    }
    load(begin);
    loadQueries();
    beginRows();
    for (int i = begin; i < end; ++i) {
      waitForCopies<0>();
      expandTile<kWidth, kForm>(keysOf(i));
      __syncthreads();
      if (stages > 1 && i + 1 < end) load(i + 1);
      attendTile(i);
      if (stages == 1 && i + 1 < end) load(i + 1);
      if ((i + 1) % (kKvChunk / kKvTile) == 0 || i + 1 == end) endChunk(i * kKvTile / kKvChunk);
    }
    if (p.partials == nullptr) store();
  }

  __device__ void loadQueries() {
    for (int i = thread(); i < blockRows * kWidth; i += threads()) {
      const int row = i / kWidth, d = i % kWidth;
      float value = 0.0f;
      if (isRowAt(row) && d < p.kv.headDim) value = p.q[tokenAt(row) * p.qStride + int64_t{headAt(row)} * p.kv.headDim + d];
      pieceOf<kWidth>(queries(), row, d / 8)[d % 8] = floatToHalf(value);
    }
  }

  /// Begins to load a tile. What no row sees is zero: it may be anything.
  __device__ void load(int tileIndex) {
    constexpr int kPieces = kWidth / 8;
    const KvRow& kv = p.kv;
    const int32_t* table = p.blockTables + static_cast<int64_t>(tile.sequence) * p.maxBlocks;
    for (int i = thread(); i < kKvTile * kPieces; i += threads()) {
      const int at = i / kPieces, from = i % kPieces * 8, position = tileIndex * kKvTile + at;
      const bool isSeen = position >= all.first && position <= all.last && from < kv.headDim;
      uint16_t* const to = pieceOf<kWidth>(keysOf(tileIndex), at, from / 8);
      if (isSeen) {
        copyPiece<kForm>(to, KvPlace(kv, table[position / kv.blockSize], 0, kvHead, position % kv.blockSize), from);
      } else {
        copyAsync16(to, kv.data, 0);
      }
    }
    commitCopies();
  }

  __device__ static void clear(float (&numbers)[kColumns][4]) {
#pragma unroll
    for (int d = 0; d < kColumns; ++d) {
#pragma unroll
      for (int i = 0; i < 4; ++i) numbers[d][i] = 0.0f;
    }
  }

  __device__ void beginRows() {
    clear(totals);
    for (int half = 0; half < 2; ++half) total[half] = {-kInfinity, 0.0f};
    beginChunk();
  }

  __device__ void beginChunk() {
    clear(sums);
    for (int half = 0; half < 2; ++half) chunk[half] = {-kInfinity, 0.0f};
  }

  __device__ void attendTile(int tileIndex) {
    multiplyKeys(keysOf(tileIndex));
    scale(tileIndex);
    __syncthreads();  // the largest scores of all warps are there
    weigh();
    __syncthreads();  // the weights are there
    multiplyValues(keysOf(tileIndex));
    __syncthreads();  // keys and weights have been read
  }

  /// scores = queries · keysᵀ of the warp's tokens
  __device__ void multiplyKeys(uint16_t* tileKeys) {
#pragma unroll
    for (int n = 0; n < kKeys; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[n][i] = 0.0f;
    }
#pragma unroll 1
    for (int d = 0; d < kWidth / 8; d += 4) {
      uint32_t q[2][4];
      loadMatrices<false>(q[0], pieceOf<kWidth>(queries(), warpRow() + lane() % 16, d + lane() / 16));
      loadMatrices<false>(q[1], pieceOf<kWidth>(queries(), warpRow() + lane() % 16, d + 2 + lane() / 16));
#pragma unroll
      for (int n = 0; n < kKeys; ++n) {
        uint32_t k[4];
        loadMatrices<false>(k, pieceOf<kWidth>(tileKeys, (part() * kKeys + n) * 8 + lane() % 8, d + lane() / 8));
        multiplyAdd(scores[n], q[0], k[0], k[1]);
        multiplyAdd(scores[n], q[1], k[2], k[3]);
      }
    }
  }

  /// Makes products into scores, and tells the other warps the largest of each row.
  __device__ void scale(int tileIndex) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Sight sight = sights()[rowOf(half)];
      float largest = -kInfinity;
#pragma unroll
      for (int n = 0; n < kKeys; ++n) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          float& score = scores[n][i];
          score *= p.scale;
          if (p.softcap > 0.0f) score = p.softcap * hyperbolicTangent(score / p.softcap);
          const int position = tileIndex * kKvTile + (part() * kKeys + n) * 8 + lane() % 4 * 2 + i % 2;
          if (position < sight.first || position > sight.last) score = -kInfinity;
          largest = largest < score ? score : largest;
        }
      }
      // The four lanes of a row.
      largest = Max()(largest, shuffleXor<1>(largest));
      largest = Max()(largest, shuffleXor<2>(largest));
      if (lane() % 4 == 0) largestOf(rowOf(half))[part()] = largest;
    }
  }

  /// Makes scores into weights, relative to the largest score of the chunk so far.
  __device__ void weigh() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = chunk[half].largest;
#pragma unroll
      for (int i = 0; i < kLatentWarps; ++i) largest = Max()(largest, largestOf(rowOf(half))[i]);
      // A row that has seen nothing yet has only weights of 0.
      const float origin = largest == -kInfinity ? 0.0f : largest;
      const float factor = exponential(chunk[half].largest - origin);
      float weight = 0.0f;
#pragma unroll
      for (int n = 0; n < kKeys; ++n) {
        const float low = exponential(scores[n][2 * half] - origin), high = exponential(scores[n][2 * half + 1] - origin);
        weight += low;
        weight += high;
        uint16_t* piece = pieceOf<kKvTile>(weights(), rowOf(half), part() * kKeys + n);
        *reinterpret_cast<uint32_t*>(piece + lane() % 4 * 2) = packHalves(low, high);
      }
      chunk[half] = {largest, chunk[half].weight * factor + weight};
#pragma unroll
      for (int d = 0; d < kColumns; ++d) {
        sums[d][2 * half] *= factor;
        sums[d][2 * half + 1] *= factor;
      }
    }
  }

  /// sums += weights · values, of the warp's columns
  __device__ void multiplyValues(uint16_t* values) {
#pragma unroll 1
    for (int n = 0; n < kKvTile / 8; n += 2) {
      uint32_t w[4];
      loadMatrices<false>(w, pieceOf<kKvTile>(weights(), warpRow() + lane() % 16, n + lane() / 16));
#pragma unroll
      for (int d = 0; d < kColumns; d += 2) {
        uint32_t v[4];
        loadMatrices<true>(v, pieceOf<kWidth>(values, n * 8 + lane() % 16, firstColumn / 8 + d + lane() / 16));
        multiplyAdd(sums[d], w, v[0], v[1]);
        multiplyAdd(sums[d + 1], w, v[2], v[3]);
      }
    }
  }

  /// Adds a chunk to those before it, or leaves its state for svcAttentionCombine.
  __device__ void endChunk(int index) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float weight = chunk[half].weight;
      weight += shuffleXor<1>(weight);
      weight += shuffleXor<2>(weight);
      if (lane() % 4 == 0) weightOf(rowOf(half))[part()] = weight;
    }
    __syncthreads();  // the weights of all warps are there
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float* ofWarps = weightOf(rowOf(half));
      chunk[half].weight = ofWarps[0] + ofWarps[1] + ofWarps[2] + ofWarps[3];
    }
    if (p.partials != nullptr) return storePartial(index);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Merge factors = merge(total[half], chunk[half]);
#pragma unroll
      for (int d = 0; d < kColumns; ++d) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          totals[d][i] = totals[d][i] * factors.ofBefore + sums[d][i] * factors.ofNext;
        }
      }
    }
    beginChunk();
  }

  __device__ void storePartial(int index) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!isRow(half)) continue;
      const int64_t row = int64_t{tokenAt(rowOf(half))} * p.heads + headAt(rowOf(half));
      float* partial = p.partials + (row * p.maxChunks + index) * (p.kv.headDim + 2);
      partial[0] = chunk[half].largest;
      partial[1] = chunk[half].weight;
      eachPair(*this, half, [&](int column, int d, int i) {
        partial[2 + column] = sums[d][i];
        partial[3 + column] = sums[d][i + 1];
      });
    }
  }

  __device__ void store() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!isRow(half)) continue;
      const int head = headAt(rowOf(half));
      const float factor = finish(total[half], p.sinks, head);
      uint16_t* out = static_cast<uint16_t*>(p.out) + tokenAt(rowOf(half)) * p.outStride + int64_t{head} * p.kv.headDim;
      eachPair(*this, half, [&](int column, int d, int i) { storeResults(out + column, totals[d][i], totals[d][i + 1], factor); });
    }
  }
};

SVC_KERNEL(svcLatent64, LatentAttentionParams, kLatentThreads) { LatentAttention<64, KvForm::Half>(p).run(); }
SVC_KERNEL(svcLatent576, LatentAttentionParams, kLatentThreads) { LatentAttention<576, KvForm::Half>(p).run(); }

SVC_KERNEL(svcFp8Latent64, LatentAttentionParams, kLatentThreads) { LatentAttention<64, KvForm::Fp8>(p).run(); }
SVC_KERNEL(svcFp8Latent576, LatentAttentionParams, kLatentThreads) { LatentAttention<576, KvForm::Fp8>(p).run(); }

SVC_KERNEL(svcInt8Latent64, LatentAttentionParams, kLatentThreads) { LatentAttention<64, KvForm::Int8>(p).run(); }
SVC_KERNEL(svcInt8Latent576, LatentAttentionParams, kLatentThreads) { LatentAttention<576, KvForm::Int8>(p).run(); }

}  // namespace svc::cuda
