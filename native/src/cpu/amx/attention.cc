// Paged causal attention over bf16 keys and values on AMX tiles, for prefill and decode alike.
//
// Keys are operands as the cache has them: 16 steps of 16 tokens are a tile. Values are first copied into tiles of 32
// tokens, which also puts zeros in the place of tokens that are not there. Then, 32 query rows at a time, the scores of
// a whole partition are computed and each row's largest found, and the weights of the next tokens are computed on vectors
// while the tile unit multiplies those of the tokens before with their values.
//
// Chunks of 32 tokens begin at fixed positions of the sequence, and a token that a row cannot see adds an exact zero: a
// row's bits depend on its own position only.

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
/// Query rows of a block: two tiles.
constexpr int kBlockTiles = 2;
constexpr int kBlockOfRows = kBlockTiles * kTileRows;
constexpr float kLog2E = 1.44269504f;
/// Tokens between the ones that are gathered and those that are fetched.
constexpr int kTokensAhead = 128;
/// Query rows that a task should have: as many as use the gathered keys and values while the second-level cache has them.
constexpr int kTaskRows = 256;

int depthTiles(const KvLayout& kv) { return (kv.keySteps + kTileRows - 1) / kTileRows; }
int valueTiles(const KvLayout& kv) { return kv.valueDims / kLanes; }

/// What one attend call keeps in scratch.
struct Workspace {
  float* scores;      // [kChunks][kBlockTiles][2 halves of a chunk][16 rows][16 tokens]
  uint16_t* weights;  // [kChunks][kBlockTiles][16 rows][32 tokens]
  char* values;       // [kChunks][valueTiles][16 pairs of tokens][16 dimensions][2]
  char* keys;         // [kChunks][2][depthTiles] tiles, where the cache's own cannot be used
  char* valueCopy;    // of 16 tokens
};

size_t scoreBytes() { return static_cast<size_t>(kChunks) * kBlockTiles * 2 * kTileBytes; }
size_t weightBytes() { return static_cast<size_t>(kChunks) * kBlockTiles * kTileBytes; }
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

/// Copies the values of 16 tokens into tiles of 32: `half` says which of them. Pairs of tokens are in the order in which
/// `weigh` packs the weights of both halves: two of the first, two of the second.
void copyValues(const KvLayout& kv, const char* from, int half, char* to) {
  const int tiles = valueTiles(kv);
  for (int pair = 0; pair < kLanes / 2; ++pair) {
    const int row = pair / 2 * 4 + half * 2 + pair % 2;
    for (int tile = 0; tile < tiles; ++tile) {
      const __m512i line = _mm512_loadu_si512(from + (pair * tiles + tile) * kStepBytes);
      _mm512_store_si512(to + tile * kTileBytes + row * kStepBytes, line);
    }
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

/// Gathers the tokens [begin, end) of a partition; what its chunks have besides counts as zeros.
Partition gather(const AttentionJob& job, const AttentionTask& task, Range tokens, const Workspace& work) {
  const KvLayout& kv = job.kv;
  const size_t keyTilesBytes = static_cast<size_t>(depthTiles(kv)) * kTileBytes;
  Partition partition;
  partition.firstToken = tokens.begin / kKvPartition * kKvPartition;
  partition.values = work.values;
  const int first = tokens.begin / kChunk * kChunk, last = (tokens.end + kChunk - 1) / kChunk * kChunk;
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
    fetchTile(job, task, token + kTokensAhead, smaller(token + kTokensAhead + kLanes, task.fetchEnd));
    const char* const block = blockOf(job, task, token);
    const size_t index = static_cast<size_t>(token % kv.blockSize) / kLanes;
    const char* const keys = block + task.kvHead * kv.keyHeadBytes + index * kv.keyTileBytes;
    const char* const stored = block + kv.valueOffset + task.kvHead * kv.valueHeadBytes + index * kv.valueTileBytes;
    partition.keys[tile] = keysOf(kv, keys, keyCopy);
    copyValues(kv, valuesOf<Bf16Dot>(kv, stored, task.contextLength - token, work.valueCopy), tile % 2, values);
  }
  return partition;
}

/// Queries of up to 64 dimensions stay in tiles 4 to 7 for all keys: loading tiles is what costs most.
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

/// scores [tiles of rows][2][16][16] of a chunk = queries · keys
template <int RowTiles>
void multiplyKeys(const char* queries, size_t stride, const char* const* keys, int depth, float* scores) {
  _tile_zero(0);
  _tile_zero(1);
  if constexpr (RowTiles == 2) {
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int d = 0; d < depth; ++d) {
    _tile_loadd(4, queries + d * kStepBytes, stride);
    _tile_loadd(6, keys[0] + d * kTileBytes, kStepBytes);
    _tile_loadd(7, keys[1] + d * kTileBytes, kStepBytes);
    if constexpr (RowTiles == 2) _tile_loadd(5, queries + kTileRows * stride + d * kStepBytes, stride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (RowTiles == 2) {
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, scores, kStepBytes);
  _tile_stored(1, scores + kTileFloats, kStepBytes);
  if constexpr (RowTiles == 2) {
    _tile_stored(2, scores + 2 * kTileFloats, kStepBytes);
    _tile_stored(3, scores + 3 * kTileFloats, kStepBytes);
  }
}

/// Sums in tiles 0 and 1, of the first 16 rows, and 2 and 3 += weights of 32 tokens · `Count` tiles of their values
template <int RowTiles, int Count>
void multiplyValues(const uint16_t* weights, const char* values) {
  _tile_loadd(4, weights, kStepBytes);
  _tile_loadd(6, values, kStepBytes);
  if constexpr (Count == 2) _tile_loadd(7, values + kTileBytes, kStepBytes);
  if constexpr (RowTiles == 2) _tile_loadd(5, weights + kTileRows * kChunk, kStepBytes);
  _tile_dpbf16ps(0, 4, 6);
  if constexpr (Count == 2) _tile_dpbf16ps(1, 4, 7);
  if constexpr (RowTiles == 2) _tile_dpbf16ps(2, 5, 6);
  if constexpr (RowTiles == 2 && Count == 2) _tile_dpbf16ps(3, 5, 7);
}

inline void clearSums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

template <int RowTiles, int Count>
void storeTileSums(float* values, int valueDims) {
  const size_t stride = static_cast<size_t>(valueDims) * 4;
  _tile_stored(0, values, stride);
  if constexpr (Count == 2) _tile_stored(1, values + kLanes, stride);
  if constexpr (RowTiles == 2) _tile_stored(2, values + kTileRows * valueDims, stride);
  if constexpr (RowTiles == 2 && Count == 2) _tile_stored(3, values + kTileRows * valueDims + kLanes, stride);
}

/// Weights are 2^x for x <= 0, rounded to bf16 like this: x is rounded to a 128th, so that its bits with the exponent's
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


/// weights [16 rows, 32 tokens] = 2^(scores * factor - largest), where bias = kBias - 128 * largest; adds them to `sums`.
inline void weigh(const float* scores, float factor, const float* biases, uint16_t* weights, float* sums) {
  const __m512i table = _mm512_load_si512(kWeightTable.excess);
  const __m512bh ones = (__m512bh)_mm512_set1_epi16(0x3f80);
  const __m512 scale = _mm512_set1_ps(factor * 128.0f);
  for (int row = 0; row < kTileRows; ++row) {
    const __m512 bias = _mm512_set1_ps(biases[row]);
    const __m512i first = _mm512_cvtps_epi32(_mm512_fmadd_ps(_mm512_load_ps(scores + row * kLanes), scale, bias));
    const __m512i second =
        _mm512_cvtps_epi32(_mm512_fmadd_ps(_mm512_load_ps(scores + kTileFloats + row * kLanes), scale, bias));
    // What is below 0, a masked score above all, becomes 0.
    const __m512i power = _mm512_packus_epi32(first, second);
    constexpr __mmask64 kLowBytes = 0x5555555555555555;
    const __m512i excess = _mm512_maskz_permutexvar_epi8(kLowBytes, _mm512_srli_epi16(power, 1), table);
    const __m512i weight = _mm512_sub_epi16(power, excess);
    _mm512_store_si512(weights + row * kChunk, weight);
    const __m512 sum = _mm512_loadu_ps(sums + row * kLanes);
    _mm512_storeu_ps(sums + row * kLanes, _mm512_dpbf16_ps(sum, (__m512bh)weight, ones));
  }
}

/// Fetches the keys or the values of one tile into the second-level cache.
inline void fetchInto2(const char* tile, size_t bytes) {
  for (size_t at = 0; at < bytes; at += 64) __builtin_prefetch(tile + at, 0, 2);
}

/// Up to 32 rows of a task, in `RowTiles` tiles, against one partition.
template <int RowTiles>
class Block {
 public:
  /// @param isLast whether the next partition is read afterwards.
  Block(const AttentionJob& job, const AttentionTask& task, const Partition& partition, const Workspace& work,
        const AttentionScratch& scratch, const AttentionState& state, int row, bool isLast)
      : job_(job), task_(task), partition_(partition), work_(work), state_(state), row_(row),
        fetchEnd_(isLast ? task.fetchEnd : 0), group_(job.heads / job.kvHeads), rows_(smaller(kBlockOfRows, task.tokens * group_ - row)) {
    queryStride_ = static_cast<size_t>(depthTiles(job.kv)) * kStepBytes;
    queries_ = reinterpret_cast<const char*>(scratch.queries) + row * queryStride_;
  }

  void run(Range tokens) {
    const int oldest = positionOf(0) - job_.window + 1, newest = positionOf(rows_ - 1);
    const Range seen{oldest > tokens.begin ? oldest : tokens.begin, smaller(newest + 1, tokens.end)};
    clear(seen.begin >= seen.end);
    if (seen.begin >= seen.end) return;
    chunks_ = {(seen.begin - partition_.firstToken) / kChunk, (seen.end - partition_.firstToken + kChunk - 1) / kChunk};
    computeScores();
    finishLargest();
    if (!isOrdered_) spreadNaN();
    computeValues();
  }

 private:
  int positionOf(int row) const { return task_.firstPosition + (row_ + row) / group_; }

  float* scoresOf(int chunk, int tile) const { return work_.scores + (chunk * kBlockTiles + tile) * 2 * kTileFloats; }

  void clear(bool isUnseen) {
    for (int i = 0; i < kBlockOfRows; ++i) state_.largest[row_ + i] = kNothing;
    for (int i = 0; i < kBlockOfRows; ++i) store(state_.sums + (row_ + i) * kLanes, splat(0.0f));
    for (int i = 0; i < kBlockOfRows; ++i) store(most_ + i * kLanes, splat(kNothing));
    if (isUnseen) {
      __builtin_memset(state_.values + row_ * job_.kv.valueDims, 0, sizeof(float) * rows_ * job_.kv.valueDims);
    }
  }

  /// Fetches what the next partition has in the place of a chunk: memory works while the tile unit does.
  void fetchKeys(int chunk) const {
    const KvLayout& kv = job_.kv;
    forTilesAhead(chunk, [&](const char* block, size_t index) {
      fetchInto2(block + task_.kvHead * kv.keyHeadBytes + index * kv.keyTileBytes, kv.keyTileBytes);
    });
  }
  void fetchValues(int chunk) const {
    const KvLayout& kv = job_.kv;
    forTilesAhead(chunk, [&](const char* block, size_t index) {
      fetchInto2(block + kv.valueOffset + task_.kvHead * kv.valueHeadBytes + index * kv.valueTileBytes, kv.valueTileBytes);
    });
  }

  template <class Fetch>
  void forTilesAhead(int chunk, const Fetch& fetch) const {
    const int begin = partition_.firstToken + kKvPartition + chunk * kChunk;
    for (int token = begin; token < begin + kChunk && token < fetchEnd_; token += kLanes) {
      fetch(blockOf(job_, task_, token), static_cast<size_t>(token % job_.kv.blockSize) / kLanes);
    }
  }

  /// The largest scores of a chunk are found while the tile unit computes those of the next one.
  void computeScores() {
    const int depth = depthTiles(job_.kv);
    const bool isStationary = depth == 2;
    if (isStationary) loadStationaryQueries<RowTiles>(queries_, queryStride_);
    for (int chunk = chunks_.begin; chunk < chunks_.end; ++chunk) {
      const char* const* keys = partition_.keys + 2 * chunk;
      fetchKeys(chunk);
      if (isStationary) {
        multiplyStationary<RowTiles>(keys[0], scoresOf(chunk, 0));
        multiplyStationary<RowTiles>(keys[1], scoresOf(chunk, 0) + kTileFloats);
      } else {
        multiplyKeys<RowTiles>(queries_, queryStride_, keys, depth, scoresOf(chunk, 0));
      }
      if (chunk > chunks_.begin) findLargest(chunk - 1);
    }
    findLargest(chunks_.end - 1);
  }

  void findLargest(int chunk) {
    const int token = partition_.firstToken + chunk * kChunk;
    const bool isWhole = token + kChunk - 1 <= positionOf(0) && token > positionOf(rows_ - 1) - job_.window;
    if (!isWhole) mask(chunk, token);
    __mmask16 ordered = 0xffff;
    for (int tile = 0; tile < RowTiles; ++tile) {
      const float* scores = scoresOf(chunk, tile);
      float* most = most_ + tile * kTileFloats;
      for (int row = 0; row < kTileRows; ++row) {
        const __m512 first = _mm512_load_ps(scores + row * kLanes);
        const __m512 second = _mm512_load_ps(scores + kTileFloats + row * kLanes);
        ordered = _mm512_mask_cmp_ps_mask(ordered, first, second, _CMP_ORD_Q);
        _mm512_store_ps(most + row * kLanes, _mm512_max_ps(_mm512_load_ps(most + row * kLanes), _mm512_max_ps(first, second)));
      }
    }
    if (ordered != 0xffff) isOrdered_ = false;
  }

  /// Takes the scores of tokens out that a row cannot see, those of rows that are not there included.
  void mask(int chunk, int token) const {
    for (int row = 0; row < RowTiles * kTileRows; ++row) {
      float* scores = scoresOf(chunk, row / kTileRows) + row % kTileRows * kLanes;
      const int end = row < rows_ ? positionOf(row) + 1 - token : 0;
      const int begin = end - job_.window;
      store(scores, keepLanes(load(scores), begin, end, splat(kNothing)));
      store(scores + kTileFloats, keepLanes(load(scores + kTileFloats), begin - kLanes, end - kLanes, splat(kNothing)));
    }
  }

  void finishLargest() {
    const float factor = job_.scale * kLog2E;
    for (int row = 0; row < RowTiles * kTileRows; ++row) {
      const float largest = largestLane(load(most_ + row * kLanes)) * factor;
      state_.largest[row_ + row] = largest;
      biases_[row] = static_cast<float>(kBias) - largest * 128.0f;
    }
  }

  /// A row with a score that is no number has no other result.
  void spreadNaN() {
    for (int row = 0; row < rows_; ++row) {
      for (int chunk = chunks_.begin; chunk < chunks_.end; ++chunk) {
        const float* scores = scoresOf(chunk, row / kTileRows) + row % kTileRows * kLanes;
        for (int i = 0; i < kLanes; ++i) {
          if (scores[i] != scores[i] || scores[kTileFloats + i] != scores[kTileFloats + i]) state_.largest[row_ + row] = __builtin_nanf("");
        }
      }
      if (state_.largest[row_ + row] != state_.largest[row_ + row]) store(state_.sums + (row_ + row) * kLanes, splat(__builtin_nanf("")));
    }
  }

  uint16_t* weightsOf(int chunk, int tile) const {
    return work_.weights + (chunk * kBlockTiles + tile) * kTileRows * kChunk;
  }

  void weighChunk(int chunk) const {
    for (int tile = 0; tile < RowTiles; ++tile) {
      weigh(scoresOf(chunk, tile), job_.scale * kLog2E, biases_ + tile * kTileRows, weightsOf(chunk, tile),
            state_.sums + (row_ + tile * kTileRows) * kLanes);
    }
  }

  void computeValues() {
    const int tiles = valueTiles(job_.kv);
    weighChunk(chunks_.begin);
    for (int tile = 0; tile < tiles; tile += 2) {
      if (tiles - tile == 1) sumValues<1>(tile);
      else sumValues<2>(tile);
    }
  }

  /// `Count` tiles of dimensions; beside the first of all, the weights of the next chunk are computed.
  template <int Count>
  void sumValues(int tile) const {
    const size_t chunkBytes = static_cast<size_t>(valueTiles(job_.kv)) * kTileBytes;
    const char* const values = partition_.values + tile * kTileBytes;
    clearSums();
    for (int chunk = chunks_.begin; chunk < chunks_.end; ++chunk) {
      multiplyValues<RowTiles, Count>(weightsOf(chunk, 0), values + chunk * chunkBytes);
      if (tile == 0) fetchValues(chunk);
      if (tile == 0 && chunk + 1 < chunks_.end) weighChunk(chunk + 1);
    }
    const int valueDims = job_.kv.valueDims;
    storeTileSums<RowTiles, Count>(state_.values + static_cast<size_t>(row_) * valueDims + tile * kLanes, valueDims);
  }

  const AttentionJob& job_;
  const AttentionTask& task_;
  const Partition& partition_;
  const Workspace& work_;
  const AttentionState& state_;
  const int row_;
  const int fetchEnd_;
  const int group_;
  const int rows_;
  const char* queries_;
  size_t queryStride_;
  Range chunks_{};
  bool isOrdered_ = true;
  alignas(64) float most_[kBlockOfRows * kLanes];
  alignas(64) float biases_[kBlockOfRows];
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
  set.attention[1] = {kTaskRows, &scratchBytes, &loadQueriesOfTiles, &attendOnTiles, &finish<uint16_t>};
}

}  // namespace svc::cpu::amx
