// Paged attention over bf16 keys and values on AMX tiles, for prefill and decode alike.
//
// Keys are operands as the cache has them: 16 steps of 16 tokens are a tile. Values are first copied into tiles of 32
// tokens, which also puts zeros in the place of tokens that are not there. Then 32 query rows at a time walk a partition
// in steps of 128 tokens: while the tile unit multiplies the queries with the keys of one step, and the weights of another
// with their values, vectors compute the weights of the step between them, a few rows after every few products.
//
// Weights are powers of 2 below a row's level, its largest score in the first step of the partition in which it sees
// anything. Sums and weights are floats, so a level far below the largest score costs no precision; a row whose sums
// grow beyond `kMostSum` has its exact largest score found, and is computed again.
//
// Steps begin at fixed positions of the sequence, and a token that a row cannot see adds an exact zero: a row's bits
// depend on its own position only.

#include <immintrin.h>

#include <utility>

#include "cpu/dispatch.h"

namespace svc::cpu::amx {
namespace {

#include "cpu/simd/avx512.h"
#include "cpu/kernels_generic/exp.h"
#include "cpu/kernels_generic/tile.h"
#include "cpu/kernels_generic/matmul.h"
#include "cpu/kernels_generic/kv_formats.h"
#include "cpu/kernels_generic/attention.h"
#include "cpu/amx/tiles.h"

constexpr int kTileFloats = kTileBytes / 4;
/// Tokens that one tile of weights has, two to a word.
constexpr int kChunk = 32;
constexpr int kChunks = kKvPartition / kChunk;
/// Tokens of a step: the more, the seldomer sums of values are loaded into tiles and stored; the fewer, the more of a step is in
/// the first-level cache.
constexpr int kStep = 128;
constexpr int kStepChunks = kStep / kChunk;
/// Query rows of a block: two tiles.
constexpr int kBlockTiles = 2;
constexpr int kBlockOfRows = kBlockTiles * kTileRows;
constexpr float kLog2E = 1.44269504f;
/// A weight of more than this, or one that is no number, makes its row be computed again.
constexpr float kMostSum = 0x1p32f;
/// Tokens between the ones that are gathered and those that are fetched.
constexpr int kTokensAhead = 128;
/// Several KV heads are read in turn so that pieces have so many bytes: memory is slower in shorter ones.
constexpr size_t kBytesTogether = 4096;
/// Query rows that a task should have: as many as use the gathered keys and values while the second-level cache has them.
constexpr int kTaskRows = 256;

int depthTiles(const KvLayout& kv) { return (kv.keySteps + kTileRows - 1) / kTileRows; }
int valueTiles(const KvLayout& kv) { return kv.valueDims / kLanes; }

/// What one attend call keeps in scratch.
struct Workspace {
  float* scores;      // [2 steps][kStepChunks][kBlockTiles][2 halves of a chunk][16 rows][16 tokens]
  uint16_t* weights;  // [2 steps][kStepChunks][kBlockTiles][16 rows][32 tokens]
  char* values;       // [kChunks][valueTiles][16 pairs of tokens][16 dimensions][2]
  char* keys;         // [kChunks][2][depthTiles] tiles, where the cache's own cannot be used
  char* valueCopy;    // of 16 tokens
};

constexpr int kScoresOfChunk = kBlockTiles * 2 * kTileFloats;
constexpr int kWeightsOfChunk = kBlockTiles * kTileRows * kChunk;

size_t scoreBytes() { return sizeof(float) * 2 * kStepChunks * kScoresOfChunk; }
size_t weightBytes() { return sizeof(uint16_t) * 2 * kStepChunks * kWeightsOfChunk; }
size_t valueBytes(const KvLayout& kv) { return static_cast<size_t>(kChunks) * valueTiles(kv) * kTileBytes; }
size_t keyBytes(const KvLayout& kv) { return static_cast<size_t>(kChunks) * 2 * depthTiles(kv) * kTileBytes; }

size_t scratchBytes(const KvLayout& kv) {
  return scoreBytes() + weightBytes() + valueBytes(kv) + keyBytes(kv) + valueCopyBytes(kv);
}

Workspace workspaceIn(char* scratch, const KvLayout& kv) {
  char* const weights = scratch + scoreBytes();
  char* const values = weights + weightBytes();
  char* const keys = values + valueBytes(kv);
  return {reinterpret_cast<float*>(scratch), reinterpret_cast<uint16_t*>(weights), values, keys, keys + keyBytes(kv)};
}

/// One partition of one head, ready for the tile unit. Chunks count from its first token.
struct Partition {
  int firstToken;
  const char* keys[2 * kChunks];  // of each 16 tokens, `depthTiles` tiles
  const char* values;             // as in Workspace
};

/// Rounds the task's queries to bf16 rows, zeros after each up to a whole tile and after the last up to a whole block.
void loadQueriesOfTiles(const AttentionJob& job, const AttentionTask& task, uint32_t* queries) {
  const int group = job.heads / job.kvHeads;
  const int rows = task.tokens * group;
  const int rowWords = depthTiles(job.kv) * kTileRows;
  __builtin_memset(queries, 0, static_cast<size_t>(roundUp(rows, kBlockOfRows)) * rowWords * 4);
  for (int row = 0; row < rows; ++row) {
    const float* q = job.q + (task.firstRow + row / group) * job.qStride +
                     static_cast<size_t>(task.kvHead * group + row % group) * job.kv.headDim;
    auto* out = reinterpret_cast<uint16_t*>(queries + row * rowWords);
    for (int d = 0; d < job.kv.headDim; d += kLanes) storeBf16(out + d, loadFirst(q + d, smaller(kLanes, job.kv.headDim - d)));
  }
}

/// The place of a pair of tokens in a tile of 32, of which `half` says which 16 they are of: `weigh` packs two pairs of the first
/// half, then two of the second.
constexpr int rowOfPair(int pair, int half) { return pair / 2 * 4 + half * 2 + pair % 2; }

/// Copies the values of 16 tokens into tiles of 32.
void copyValues(const KvLayout& kv, const char* from, int half, char* to) {
  const int tiles = valueTiles(kv);
  for (int pair = 0; pair < kLanes / 2; ++pair) {
    const int row = rowOfPair(pair, half);
    for (int tile = 0; tile < tiles; ++tile) {
      const __m512i line = _mm512_loadu_si512(from + (pair * tiles + tile) * kStepBytes);
      _mm512_store_si512(to + tile * kTileBytes + row * kStepBytes, line);
    }
  }
}

/// Eight vectors of eight numbers of 64 bits: number i of vector j becomes number j of vector i.
inline void transposeEight(__m512i* rows) {
  __m512i pairs[8];
  for (int i = 0; i < 4; ++i) {
    pairs[i] = _mm512_unpacklo_epi64(rows[2 * i], rows[2 * i + 1]);
    pairs[4 + i] = _mm512_unpackhi_epi64(rows[2 * i], rows[2 * i + 1]);
  }
  constexpr int kEven = 0x88, kOdd = 0xdd;
  for (int odd = 0; odd < 2; ++odd) {
    const __m512i* from = pairs + 4 * odd;
    const __m512i firstEven = _mm512_shuffle_i64x2(from[0], from[1], kEven), firstOdd = _mm512_shuffle_i64x2(from[0], from[1], kOdd);
    const __m512i lastEven = _mm512_shuffle_i64x2(from[2], from[3], kEven), lastOdd = _mm512_shuffle_i64x2(from[2], from[3], kOdd);
    rows[odd] = _mm512_shuffle_i64x2(firstEven, lastEven, kEven);
    rows[2 + odd] = _mm512_shuffle_i64x2(firstOdd, lastOdd, kEven);
    rows[4 + odd] = _mm512_shuffle_i64x2(firstEven, lastEven, kOdd);
    rows[6 + odd] = _mm512_shuffle_i64x2(firstOdd, lastOdd, kOdd);
  }
}

/// For each two tokens, whose words have two dimensions each: the first dimension of both, then the second.
struct PairTurn {
  constexpr PairTurn() {
    for (int i = 0; i < 32; ++i) places[i] = static_cast<uint16_t>(i / 4 * 4 + i % 2 * 2 + i / 2 % 2);
  }
  alignas(64) uint16_t places[32] = {};
};
constexpr PairTurn kPairTurn;

/// The same as copyValues where the values are keys, of which `count` tokens are there.
void copyKeysAsValues(const KvLayout& kv, const char* keys, int count, int half, char* to) {
  constexpr int kSteps = kLanes / 2;
  const __m512i places = _mm512_load_si512(kPairTurn.places);
  for (int step = 0; step < kv.valueDims / 2; step += kSteps, keys += kSteps * kStepBytes, to += kTileBytes) {
    __m512i rows[kSteps];
    for (int i = 0; i < kSteps; ++i) {
      const __mmask16 there = step + i < kv.keySteps ? lanesBelow(count) : 0;
      rows[i] = _mm512_permutexvar_epi16(places, _mm512_maskz_loadu_epi32(there, keys + i * kStepBytes));
    }
    transposeEight(rows);
    for (int pair = 0; pair < kSteps; ++pair) _mm512_store_si512(to + rowOfPair(pair, half) * kStepBytes, rows[pair]);
  }
}

/// The keys of 16 tokens as whole tiles: the cache's own, or where those are no bf16 or not whole, a copy in `copy`.
const char* keysOf(const KvLayout& kv, const char* tile, char* copy) {
  const size_t bytes = keyCopyBytes(kv), padded = static_cast<size_t>(depthTiles(kv)) * kTileBytes;
  if (!isPacked(kv) && bytes == padded) return tile;
  if (isPacked(kv)) expandKeys(kv, tile, copy);
  else __builtin_memcpy(copy, tile, bytes);
  __builtin_memset(copy + bytes, 0, padded - bytes);
  return copy;
}

inline void fetch(const char* memory, size_t bytes) {
  for (size_t at = 0; at < bytes; at += 64) __builtin_prefetch(memory + at, 0, 2);
}

/// Fetches the keys and values of 16 tokens, of all heads that are read in turn, into the second-level cache.
void fetchHeads(const AttentionJob& job, const AttentionTask& task, int token) {
  const KvLayout& kv = job.kv;
  const char* const block = blockOf(job, task, token);
  const size_t index = static_cast<size_t>(token % kv.blockSize) / kLanes;
  const auto [begin, end] = task.headsTogether;
  for (int head = begin; head < end; ++head) fetch(block + head * kv.keyHeadBytes + index * kv.keyTileBytes, kv.keyTileBytes);
  if (kv.keysAreValues) return;
  const char* const values = block + kv.valueOffset;
  for (int head = begin; head < end; ++head) fetch(values + head * kv.valueHeadBytes + index * kv.valueTileBytes, kv.valueTileBytes);
}

/// Gathers the tokens [begin, end) of a partition; what its steps have besides counts as zeros.
Partition gather(const AttentionJob& job, const AttentionTask& task, Range tokens, const Workspace& work) {
  const KvLayout& kv = job.kv;
  const size_t keyTilesBytes = static_cast<size_t>(depthTiles(kv)) * kTileBytes;
  Partition partition;
  partition.firstToken = tokens.begin / kKvPartition * kKvPartition;
  partition.values = work.values;
  const int first = tokens.begin / kStep * kStep, last = (tokens.end + kStep - 1) / kStep * kStep;
  for (int token = first; token < last; token += kLanes) {
    const int tile = (token - partition.firstToken) / kLanes;
    char* const keyCopy = work.keys + tile * keyTilesBytes;
    char* const values = work.values + static_cast<size_t>(tile / 2) * valueTiles(kv) * kTileBytes;
    if (token < tokens.begin || token >= tokens.end) {
      __builtin_memset(keyCopy, 0, keyTilesBytes);
      __builtin_memset(work.valueCopy, 0, valueCopyBytes(kv));
      partition.keys[tile] = keyCopy;
      copyValues(kv, work.valueCopy, tile % 2, values);
      continue;
    }
    if (task.kvHead == task.headsTogether.begin && token + kTokensAhead < task.fetchEnd) fetchHeads(job, task, token + kTokensAhead);
    const char* const block = blockOf(job, task, token);
    const size_t index = static_cast<size_t>(token % kv.blockSize) / kLanes;
    const char* const keys = block + task.kvHead * kv.keyHeadBytes + index * kv.keyTileBytes;
    const int valid = task.contextLength - token;
    partition.keys[tile] = keysOf(kv, keys, keyCopy);
    if (kv.keysAreValues) {
      copyKeysAsValues(kv, partition.keys[tile], valid, tile % 2, values);
      continue;
    }
    const char* const stored = block + kv.valueOffset + task.kvHead * kv.valueHeadBytes + index * kv.valueTileBytes;
    copyValues(kv, valuesOf<Bf16Dot>(kv, stored, valid, work.valueCopy), tile % 2, values);
  }
  return partition;
}

/// Queries of 33 to 64 dimensions stay in tiles 4 to 7 for all keys of a step.
template <int RowTiles>
void loadStationaryQueries(const char* queries, size_t stride) {
  _tile_loadd(4, queries, stride);
  _tile_loadd(5, queries + kStepBytes, stride);
  if constexpr (RowTiles == 2) {
    _tile_loadd(6, queries + kTileRows * stride, stride);
    _tile_loadd(7, queries + kTileRows * stride + kStepBytes, stride);
  }
}

/// scores [tiles of rows][2][16][16], of one half of a chunk = the queries in tiles 4 to 7 · keys of 16 tokens
template <int RowTiles>
void multiplyStationary(const char* keys, float* scores) {
  _tile_zero(0);
  _tile_loadd(2, keys, kStepBytes);
  _tile_loadd(3, keys + kTileBytes, kStepBytes);
  _tile_dpbf16ps(0, 4, 2);
  if constexpr (RowTiles == 2) {
    _tile_zero(1);
    _tile_dpbf16ps(1, 6, 2);
  }
  _tile_dpbf16ps(0, 5, 3);
  if constexpr (RowTiles == 2) _tile_dpbf16ps(1, 7, 3);
  _tile_stored(0, scores, kStepBytes);
  if constexpr (RowTiles == 2) _tile_stored(1, scores + 2 * kTileFloats, kStepBytes);
}

inline void clearSums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

/// Sums in tiles 0 and 1, of the first 16 rows, and 2 and 3 += 32 dimensions of queries · those of the keys of a chunk
template <int RowTiles>
void addKeys(const char* queries, size_t stride, const char* first, const char* second) {
  _tile_loadd(4, queries, stride);
  _tile_loadd(6, first, kStepBytes);
  _tile_dpbf16ps(0, 4, 6);
  _tile_loadd(7, second, kStepBytes);
  _tile_dpbf16ps(1, 4, 7);
  if constexpr (RowTiles == 2) {
    _tile_loadd(5, queries + kTileRows * stride, stride);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
}

/// scores [tiles of rows][2][16][16] of a chunk
template <int RowTiles>
void storeScores(float* scores) {
  _tile_stored(0, scores, kStepBytes);
  _tile_stored(1, scores + kTileFloats, kStepBytes);
  if constexpr (RowTiles == 2) {
    _tile_stored(2, scores + 2 * kTileFloats, kStepBytes);
    _tile_stored(3, scores + 3 * kTileFloats, kStepBytes);
  }
}

/// Sums in tiles 0 and 1, of the first 16 rows, and 2 and 3 += weights of 32 tokens · `Count` tiles of their values
template <int RowTiles, int Count>
void addValues(const uint16_t* weights, const char* values) {
  _tile_loadd(4, weights, kStepBytes);
  _tile_loadd(6, values, kStepBytes);
  _tile_dpbf16ps(0, 4, 6);
  if constexpr (Count == 2) {
    _tile_loadd(7, values + kTileBytes, kStepBytes);
    _tile_dpbf16ps(1, 4, 7);
  }
  if constexpr (RowTiles == 2) {
    _tile_loadd(5, weights + kTileRows * kChunk, kStepBytes);
    _tile_dpbf16ps(2, 5, 6);
  }
  if constexpr (RowTiles == 2 && Count == 2) _tile_dpbf16ps(3, 5, 7);
}

template <int RowTiles, int Count>
void loadTileSums(const float* values, int valueDims) {
  const size_t stride = static_cast<size_t>(valueDims) * 4;
  _tile_loadd(0, values, stride);
  if constexpr (Count == 2) _tile_loadd(1, values + kLanes, stride);
  if constexpr (RowTiles == 2) _tile_loadd(2, values + kTileRows * valueDims, stride);
  if constexpr (RowTiles == 2 && Count == 2) _tile_loadd(3, values + kTileRows * valueDims + kLanes, stride);
}

template <int RowTiles, int Count>
void storeTileSums(float* values, int valueDims) {
  const size_t stride = static_cast<size_t>(valueDims) * 4;
  _tile_stored(0, values, stride);
  if constexpr (Count == 2) _tile_stored(1, values + kLanes, stride);
  if constexpr (RowTiles == 2) _tile_stored(2, values + kTileRows * valueDims, stride);
  if constexpr (RowTiles == 2 && Count == 2) _tile_stored(3, values + kTileRows * valueDims + kLanes, stride);
}

/// Weights are 2^x, rounded to bf16 like this: x is rounded to a 128th, so that its bits with the exponent's
/// bias added are nearly those of the number, 1 + f in the place of 2^f; a table of f in steps of a 64th has the
/// difference, in last places. The relative error is below 2^-7, 2^-8.8 in the mean square, as against 2^-9.3 of rounding
/// alone; 2^0 is exactly 1 and what is below 2^-126 is 0.
struct WeightTable {
  alignas(64) uint8_t excess[64];
};

constexpr int kBias = 127 * 128;

/// 128 * (f - (2^f - 1)) at the middle of each pair of numbers that an entry serves, to the nearest; 0 at 0.
constexpr WeightTable kWeightTable = {{
    0, 1, 1, 2, 2, 3, 4, 4, 5, 5, 5, 6, 6, 7, 7, 8,
    8, 8, 9, 9, 9, 9, 10, 10, 10, 10, 10, 11, 11, 11, 11, 11,
    11, 11, 11, 11, 11, 11, 11, 11, 11, 10, 10, 10, 10, 10, 9, 9,
    9, 8, 8, 8, 7, 7, 6, 6, 5, 5, 4, 3, 3, 2, 1, 1,
}};

/// What a score becomes at most: no number in bf16.
constexpr float kMostPower = 0x7fff;

/// Computes the weights of a step and adds them to the rows' sums, a few rows whenever it is called.
class Weigher {
 public:
  /// Weights are 2^(score * factor - level), where bias = kBias - 128 * level.
  Weigher(const float* scores, float factor, const float* biases, uint16_t* weights, float* sums, int rows)
      : scores_(scores), scale_(factor * 128.0f), biases_(biases), weights_(weights), sums_(sums), rows_(rows) {}

  void weigh(int rows) {
    const __m512 scale = _mm512_set1_ps(scale_);
    const __m512i table = _mm512_load_si512(kWeightTable.excess);
    for (const int end = smaller(next_ + rows, rows_); next_ < end; ++next_) weighRow(scale, table);
  }

  void finish() { weigh(rows_); }

 private:
  void weighRow(__m512 scale, __m512i table) const {
    const __m512bh ones = (__m512bh)_mm512_set1_epi16(0x3f80);
    const __m512 bias = _mm512_set1_ps(biases_[next_]);
    const int tile = next_ / kTileRows, row = next_ % kTileRows;
    const float* scores = scores_ + tile * 2 * kTileFloats + row * kLanes;
    uint16_t* weights = weights_ + (tile * kTileRows + row) * kChunk;
    __m512 sum = _mm512_loadu_ps(sums_ + next_ * kLanes);
    for (int chunk = 0; chunk < kStepChunks; ++chunk, scores += kScoresOfChunk, weights += kWeightsOfChunk) {
      const __m512i first = powers(scores, scale, bias), second = powers(scores + kTileFloats, scale, bias);
      // What is below 0, a masked score above all, becomes 0.
      const __m512i power = _mm512_packus_epi32(first, second);
      constexpr __mmask64 kLowBytes = 0x5555555555555555;
      const __m512i excess = _mm512_maskz_permutexvar_epi8(kLowBytes, _mm512_srli_epi16(power, 1), table);
      const __m512i weight = _mm512_sub_epi16(power, excess);
      _mm512_store_si512(weights, weight);
      sum = _mm512_dpbf16_ps(sum, (__m512bh)weight, ones);
    }
    _mm512_storeu_ps(sums_ + next_ * kLanes, sum);
  }

  /// The minimum turns what is no number, or far too large, into kMostPower.
  static __m512i powers(const float* scores, __m512 scale, __m512 bias) {
    const __m512 power = _mm512_fmadd_ps(_mm512_load_ps(scores), scale, bias);
    return _mm512_cvtps_epi32(_mm512_min_ps(power, _mm512_set1_ps(kMostPower)));
  }

  const float* scores_;
  float scale_;
  const float* biases_;
  uint16_t* weights_;
  float* sums_;
  int rows_;
  int next_ = 0;
};

/// Up to 32 rows of a task, in `RowTiles` tiles, against one partition.
template <int RowTiles>
class Block {
 public:
  /// @param isLast whether the next partition is read afterwards.
  Block(const AttentionJob& job, const AttentionTask& task, const Partition& partition, const Workspace& work,
        const AttentionScratch& scratch, const AttentionState& state, int row, bool isLast)
      : job_(job), task_(task), partition_(partition), work_(work), row_(row), fetchEnd_(isLast ? task.fetchEnd : 0),
        group_(job.heads / job.kvHeads), rows_(smaller(kBlockOfRows, task.tokens * group_ - row)),
        levels_(state.largest + row), sums_(state.sums + row * kLanes),
        values_(state.values + static_cast<size_t>(row) * job.kv.valueDims) {
    queryStride_ = static_cast<size_t>(depthTiles(job.kv)) * kStepBytes;
    queries_ = reinterpret_cast<const char*>(scratch.queries) + row * queryStride_;
    const int keyGroups = isStationary() ? 2 : depthTiles(job.kv), valueGroups = (valueTiles(job.kv) + 1) / 2;
    const int groups = kStepChunks * (keyGroups + valueGroups);
    rowsPerGroup_ = (rows_ + groups - 1) / groups;
  }

  void run(Range tokens) {
    const int oldest = task_.sight.oldest(positionOf(0)), newest = positionOf(rows_ - 1);
    const Range seen{oldest > tokens.begin ? oldest : tokens.begin, smaller(newest + 1, tokens.end)};
    for (int row = 0; row < rows_; ++row) setLevel(row, kNothing);
    if (seen.begin >= seen.end) {
      clearRowSums();
      __builtin_memset(values_, 0, sizeof(float) * rows_ * job_.kv.valueDims);
      return;
    }
    steps_ = {(seen.begin - partition_.firstToken) / kStep, (seen.end - partition_.firstToken + kStep - 1) / kStep};
    walk();
    if (!findLargest()) return;
    walk();
    for (int row = 0; row < rows_; ++row) {
      const float sum = sumLanes(load(sums_ + row * kLanes));
      if (sum != sum) levels_[row] = sum;
    }
  }

 private:
  bool isStationary() const { return depthTiles(job_.kv) == 2; }

  int positionOf(int row) const { return task_.firstPosition + (row_ + row) / group_ * task_.positionStep; }

  /// Behind the last token that the row sees.
  int endOf(int row) const { return smaller(positionOf(row) + 1, task_.contextLength); }

  /// Scores and weights of a step have the place of those of the second step before.
  float* scoresOf(int step) const { return work_.scores + (step & 1) * kStepChunks * kScoresOfChunk; }
  uint16_t* weightsOf(int step) const { return work_.weights + (step & 1) * kStepChunks * kWeightsOfChunk; }

  void clearRowSums() {
    for (int i = 0; i < rows_; ++i) store(sums_ + i * kLanes, splat(0.0f));
  }

  /// Weights of a step, products with the keys of the next one and the values of the one before side by side.
  void walk() {
    clearRowSums();
    for (int step = steps_.begin - 1; step <= steps_.end; ++step) {
      const bool isWeighed = step >= steps_.begin && step < steps_.end;
      if (isWeighed) prepare(step);
      Weigher weigher(scoresOf(step), job_.scale * kLog2E, biases_, weightsOf(step), sums_, isWeighed ? rows_ : 0);
      if (step > steps_.begin) multiplyValues(step - 1, weigher);
      if (step + 1 < steps_.end) multiplyKeys(step + 1, weigher);
      weigher.finish();
    }
  }

  /// Masks the scores of a step, and finds the levels of those who see something for the first time.
  void prepare(int step) {
    const int token = partition_.firstToken + step * kStep;
    const bool isWhole = token + kStep <= endOf(0) && token >= task_.sight.oldest(positionOf(rows_ - 1));
    if (!isWhole) mask(step, token);
    for (int row = 0; hasUnlevelled_ && row < rows_; ++row) {
      if (levels_[row] == kNothing) setLevel(row, largestOf(step, row, kNothing));
    }
    hasUnlevelled_ = !isWhole && hasUnlevelled_;
  }

  float* scoresOfRow(int step, int row) const {
    return scoresOf(step) + row / kTileRows * 2 * kTileFloats + row % kTileRows * kLanes;
  }

  /// Takes the scores of tokens out that a row cannot see.
  void mask(int step, int token) const {
    for (int row = 0; row < rows_; ++row) {
      const int begin = task_.sight.oldest(positionOf(row)) - token;
      const int end = endOf(row) - token;
      float* scores = scoresOfRow(step, row);
      for (int first = 0; first < kStep; first += kChunk, scores += kScoresOfChunk) {
        store(scores, keepLanes(load(scores), begin - first, end - first, splat(kNothing)));
        float* const second = scores + kTileFloats;
        store(second, keepLanes(load(second), begin - first - kLanes, end - first - kLanes, splat(kNothing)));
      }
    }
  }

  float largestOf(int step, int row, float most) const {
    const float* scores = scoresOfRow(step, row);
    V16 largest = splat(kNothing);
    for (int chunk = 0; chunk < kStepChunks; ++chunk, scores += kScoresOfChunk) {
      largest = max(largest, max(load(scores), load(scores + kTileFloats)));
    }
    const float here = largestLane(largest) * job_.scale * kLog2E;
    return here > most ? here : most;
  }

  void setLevel(int row, float level) {
    levels_[row] = level;
    biases_[row] = static_cast<float>(kBias) - (level == kNothing ? 0.0f : level * 128.0f);
  }

  /// Finds the exact largest scores of rows whose sums show that they have a weight beyond measure. @returns whether there
  /// are any.
  bool findLargest() {
    bool isFailed[kBlockOfRows];
    bool isAnyFailed = false;
    for (int row = 0; row < rows_; ++row) {
      isFailed[row] = !(sumLanes(load(sums_ + row * kLanes)) <= kMostSum);
      isAnyFailed = isAnyFailed || isFailed[row];
    }
    if (!isAnyFailed) return false;
    Weigher nothing(nullptr, 0, nullptr, nullptr, nullptr, 0);
    for (int step = steps_.begin; step < steps_.end; ++step) {
      multiplyKeys(step, nothing);
      prepare(step);
      for (int row = 0; row < rows_; ++row) {
        if (isFailed[row]) setLevel(row, largestOf(step, row, levels_[row]));
      }
    }
    return true;
  }

  void multiplyKeys(int step, Weigher& weigher) const {
    const int depth = depthTiles(job_.kv);
    if (isStationary()) loadStationaryQueries<RowTiles>(queries_, queryStride_);
    for (int i = 0; i < kStepChunks; ++i) {
      const int chunk = step * kStepChunks + i;
      const char* const* keys = partition_.keys + 2 * chunk;
      float* const scores = scoresOf(step) + i * kScoresOfChunk;
      fetchAhead(chunk);
      if (isStationary()) {
        multiplyStationary<RowTiles>(keys[0], scores);
        weigher.weigh(rowsPerGroup_);
        multiplyStationary<RowTiles>(keys[1], scores + kTileFloats);
        weigher.weigh(rowsPerGroup_);
        continue;
      }
      clearSums();
      for (int d = 0; d < depth; ++d) {
        addKeys<RowTiles>(queries_ + d * kStepBytes, queryStride_, keys[0] + d * kTileBytes, keys[1] + d * kTileBytes);
        weigher.weigh(rowsPerGroup_);
      }
      storeScores<RowTiles>(scores);
    }
  }

  void multiplyValues(int step, Weigher& weigher) const {
    const int tiles = valueTiles(job_.kv);
    for (int tile = 0; tile < tiles; tile += 2) {
      if (tiles - tile == 1) sumValues<1>(step, tile, weigher);
      else sumValues<2>(step, tile, weigher);
    }
  }

  /// `Count` tiles of dimensions.
  template <int Count>
  void sumValues(int step, int tile, Weigher& weigher) const {
    const size_t chunkBytes = static_cast<size_t>(valueTiles(job_.kv)) * kTileBytes;
    const char* values = partition_.values + step * kStepChunks * chunkBytes + tile * kTileBytes;
    const uint16_t* weights = weightsOf(step);
    float* const sums = values_ + tile * kLanes;
    if (step == steps_.begin) clearSums();
    else loadTileSums<RowTiles, Count>(sums, job_.kv.valueDims);
    for (int i = 0; i < kStepChunks; ++i, values += chunkBytes, weights += kWeightsOfChunk) {
      addValues<RowTiles, Count>(weights, values);
      weigher.weigh(rowsPerGroup_);
    }
    storeTileSums<RowTiles, Count>(sums, job_.kv.valueDims);
  }

  /// Beside each chunk a part of the next partition is fetched, so that memory works while the tile unit does: the heads
  /// that are read in turn fetch that of all of them, each in a part of the tokens.
  void fetchAhead(int chunk) const {
    const auto [begin, end] = task_.headsTogether;
    const int next = partition_.firstToken + kKvPartition;
    const int part = (task_.kvHead - begin) * kChunks + chunk;
    const int last = smaller(next + (part + 1) * kChunk / (end - begin), fetchEnd_);
    const int first = next + part * kChunk / (end - begin);
    for (int token = static_cast<int>(roundUp(first, kLanes)); token < last; token += kLanes) fetchHeads(job_, task_, token);
  }

  const AttentionJob& job_;
  const AttentionTask& task_;
  const Partition& partition_;
  const Workspace& work_;
  const int row_;
  const int fetchEnd_;
  const int group_;
  const int rows_;
  float* const levels_;
  float* const sums_;
  float* const values_;
  const char* queries_;
  size_t queryStride_;
  int rowsPerGroup_;
  Range steps_{};
  bool hasUnlevelled_ = true;
  float biases_[kBlockOfRows];
};

void attendOnTiles(const AttentionJob& job, const AttentionTask& task, Range tokens, const AttentionScratch& scratch,
                   const AttentionState& state) {
  const Workspace work = workspaceIn(scratch.memory, job.kv);
  const Partition partition = gather(job, task, tokens, work);
  Tiles tiles;
  tiles.shape(kTileRows, kTileRows);
  const int rows = task.tokens * (job.heads / job.kvHeads);
  for (int row = 0; row < rows; row += kBlockOfRows) {
    const bool isLast = row + kBlockOfRows >= rows;
    if (rows - row > kTileRows) Block<2>(job, task, partition, work, scratch, state, row, isLast).run(tokens);
    else Block<1>(job, task, partition, work, scratch, state, row, isLast).run(tokens);
  }
}

}  // namespace

void addAttention(KernelSet& set) {
  set.attention[1] = {kTaskRows, kBytesTogether, &scratchBytes, &loadQueriesOfTiles, &attendOnTiles, &finish<uint16_t>};
}

}  // namespace svc::cpu::amx
