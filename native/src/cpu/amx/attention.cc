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
#include "cpu/kernels_generic/attention.h"

constexpr int kTileRows = 16;
constexpr int kTileBytes = kTileRows * kStepBytes;
constexpr int kTileFloats = kTileBytes / 4;
/// Tokens that one tile of weights has, two to a word.
constexpr int kChunk = 32;
constexpr int kChunks = kKvPartition / kChunk;
/// Query rows of a block: two tiles.
constexpr int kBlockTiles = 2;
constexpr int kBlockOfRows = kBlockTiles * kTileRows;
/// Chunks whose values are multiplied with one tile of rows, then with the other, while the first-level cache has them.
constexpr int kSharedChunks = 4;
/// Tiles of dimensions whose sums are in registers together.
constexpr int kSumTiles = 4;

/// All eight tile registers, 16 rows of 64 bytes each, given back at the end.
class FullTiles {
 public:
  FullTiles() {
    alignas(64) uint8_t shapes[64] = {};
    shapes[0] = 1;
    for (int tile = 0; tile < 8; ++tile) {
      shapes[16 + 2 * tile] = kStepBytes;
      shapes[48 + tile] = kTileRows;
    }
    // g++ 12's _tile_loadconfig names only eight of the bytes that it reads: stores to the others are dropped.
    asm volatile("ldtilecfg %0" ::"m"(shapes));
  }
  ~FullTiles() { _tile_release(); }
  FullTiles(const FullTiles&) = delete;
  FullTiles& operator=(const FullTiles&) = delete;
};

int depthTiles(const KvLayout& kv) { return (kv.keySteps + kTileRows - 1) / kTileRows; }
int valueTiles(const KvLayout& kv) { return kv.valueDims / kLanes; }

/// What one attend call keeps in scratch.
struct Workspace {
  float* scores;      // [kChunks][kBlockTiles][2 halves of a chunk][16 rows][16 tokens]
  uint16_t* weights;  // [2][kSharedChunks][16 rows][32 tokens]
  char* values;       // [kChunks][valueTiles][16 pairs of tokens][16 dimensions][2]
  char* keys;         // [kChunks][2][depthTiles] tiles, where the cache's own cannot be used
  char* valueCopy;    // 16 tokens as in the cache
};

size_t scoreBytes() { return static_cast<size_t>(kChunks) * kBlockTiles * 2 * kTileBytes; }
size_t weightBytes() { return 2 * kSharedChunks * kTileBytes; }
size_t valueBytes(const KvLayout& kv) { return static_cast<size_t>(kChunks) * valueTiles(kv) * kTileBytes; }
size_t keyBytes(const KvLayout& kv) { return static_cast<size_t>(kChunks) * 2 * depthTiles(kv) * kTileBytes; }

size_t scratchBytes(const KvLayout& kv) {
  return scoreBytes() + weightBytes() + valueBytes(kv) + keyBytes(kv) + kv.valueTileBytes;
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

/// Gathers the tokens [begin, end) of a partition; what its chunks have besides counts as zeros.
Partition gather(const AttentionJob& job, const AttentionTask& task, Range tokens, const Workspace& work) {
  alignas(64) static const char zeros[16 * kTileBytes] = {};
  const KvLayout& kv = job.kv;
  Partition partition;
  partition.firstToken = tokens.begin / kKvPartition * kKvPartition;
  partition.values = work.values;
  const int first = tokens.begin / kChunk * kChunk, last = (tokens.end + kChunk - 1) / kChunk * kChunk;
  for (int token = first; token < last; token += kLanes) {
    const int tile = (token - partition.firstToken) / kLanes;
    char* const values = work.values + static_cast<size_t>(tile / 2) * valueTiles(kv) * kTileBytes;
    if (token < tokens.begin || token >= tokens.end) {
      partition.keys[tile] = zeros;
      copyValues(kv, zeros, tile % 2, values);
      continue;
    }
    fetchTile(job, task, token + 128, smaller(token + 144, tokens.end));
    const KvTile found = locate<Bf16Dot>(job, task, token, token + 1, work.valueCopy);
    partition.keys[tile] = found.keys[0];
    if (kv.keySteps % kTileRows != 0) {
      char* const keys = work.keys + static_cast<size_t>(tile) * depthTiles(kv) * kTileBytes;
      __builtin_memset(keys + kv.keyTileBytes, 0, depthTiles(kv) * kTileBytes - kv.keyTileBytes);
      __builtin_memcpy(keys, found.keys[0], kv.keyTileBytes);
      partition.keys[tile] = keys;
    }
    copyValues(kv, found.values[0], tile % 2, values);
  }
  return partition;
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
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, keys[1] + d * kTileBytes, kStepBytes);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (RowTiles == 2) {
      _tile_loadd(5, queries + kTileRows * stride + d * kStepBytes, stride);
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

/// sums of `Count` tiles of dimensions += weights · values
template <int Count>
void multiplyValues(const uint16_t* weights, const char* values) {
  _tile_loadd(4, weights, kStepBytes);
  _tile_loadd(5, values, kStepBytes);
  _tile_dpbf16ps(0, 4, 5);
  if constexpr (Count > 1) {
    _tile_loadd(6, values + kTileBytes, kStepBytes);
    _tile_dpbf16ps(1, 4, 6);
  }
  if constexpr (Count > 2) {
    _tile_loadd(7, values + 2 * kTileBytes, kStepBytes);
    _tile_dpbf16ps(2, 4, 7);
  }
  if constexpr (Count > 3) {
    _tile_loadd(5, values + 3 * kTileBytes, kStepBytes);
    _tile_dpbf16ps(3, 4, 5);
  }
}

template <int Count>
void loadSums(bool isFirst, const float* values, size_t stride) {
  if (isFirst) {
    _tile_zero(0);
    if constexpr (Count > 1) _tile_zero(1);
    if constexpr (Count > 2) _tile_zero(2);
    if constexpr (Count > 3) _tile_zero(3);
    return;
  }
  _tile_loadd(0, values, stride);
  if constexpr (Count > 1) _tile_loadd(1, values + kLanes, stride);
  if constexpr (Count > 2) _tile_loadd(2, values + 2 * kLanes, stride);
  if constexpr (Count > 3) _tile_loadd(3, values + 3 * kLanes, stride);
}

template <int Count>
void storeTileSums(float* values, size_t stride) {
  _tile_stored(0, values, stride);
  if constexpr (Count > 1) _tile_stored(1, values + kLanes, stride);
  if constexpr (Count > 2) _tile_stored(2, values + 2 * kLanes, stride);
  if constexpr (Count > 3) _tile_stored(3, values + 3 * kLanes, stride);
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

/// Up to 32 rows of a task against one partition.
class Block {
 public:
  Block(const AttentionJob& job, const AttentionTask& task, const Partition& partition, const Workspace& work,
        const AttentionScratch& scratch, const AttentionState& state, int row)
      : job_(job), task_(task), partition_(partition), work_(work), state_(state), row_(row),
        group_(job.heads / job.kvHeads), rows_(smaller(kBlockOfRows, task.tokens * group_ - row)),
        tiles_((rows_ + kTileRows - 1) / kTileRows) {
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

  /// The largest scores of a chunk are found while the tile unit computes those of the next one.
  void computeScores() {
    const int depth = depthTiles(job_.kv);
    for (int chunk = chunks_.begin; chunk < chunks_.end; ++chunk) {
      const char* const* keys = partition_.keys + 2 * chunk;
      if (tiles_ == 2) multiplyKeys<2>(queries_, queryStride_, keys, depth, scoresOf(chunk, 0));
      else multiplyKeys<1>(queries_, queryStride_, keys, depth, scoresOf(chunk, 0));
      if (chunk > chunks_.begin) findLargest(chunk - 1);
    }
    findLargest(chunks_.end - 1);
  }

  void findLargest(int chunk) {
    const int token = partition_.firstToken + chunk * kChunk;
    const bool isWhole = token + kChunk - 1 <= positionOf(0) && token > positionOf(rows_ - 1) - job_.window;
    if (!isWhole) mask(chunk, token);
    __mmask16 ordered = 0xffff;
    for (int tile = 0; tile < tiles_; ++tile) {
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
    for (int row = 0; row < tiles_ * kTileRows; ++row) {
      float* scores = scoresOf(chunk, row / kTileRows) + row % kTileRows * kLanes;
      const int end = row < rows_ ? positionOf(row) + 1 - token : 0;
      const int begin = end - job_.window;
      store(scores, keepLanes(load(scores), begin, end, splat(kNothing)));
      store(scores + kTileFloats, keepLanes(load(scores + kTileFloats), begin - kLanes, end - kLanes, splat(kNothing)));
    }
  }

  void finishLargest() {
    const float factor = job_.scale * 1.44269504f;
    for (int row = 0; row < tiles_ * kTileRows; ++row) {
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

  /// A part of the work: one tile of rows, a few chunks.
  struct Part {
    int chunk;
    int chunks;
    int tile;
  };

  Part partAt(int index) const {
    const int chunk = chunks_.begin + index / tiles_ * kSharedChunks;
    return {chunk, smaller(kSharedChunks, chunks_.end - chunk), index % tiles_};
  }

  uint16_t* weightsOf(int part, int chunk) const {
    return work_.weights + ((part % 2) * kSharedChunks + chunk) * kTileRows * kChunk;
  }

  void weighChunk(int index, const Part& part, int chunk) const {
    weigh(scoresOf(part.chunk + chunk, part.tile), job_.scale * 1.44269504f, biases_ + part.tile * kTileRows,
          weightsOf(index, chunk), state_.sums + (row_ + part.tile * kTileRows) * kLanes);
  }

  void computeValues() {
    const int parts = (chunks_.end - chunks_.begin + kSharedChunks - 1) / kSharedChunks * tiles_;
    const Part first = partAt(0);
    for (int chunk = 0; chunk < first.chunks; ++chunk) weighChunk(0, first, chunk);
    for (int index = 0; index < parts; ++index) {
      const int tiles = valueTiles(job_.kv);
      for (int dims = 0; dims < tiles; dims += kSumTiles) {
        switch (smaller(kSumTiles, tiles - dims)) {
          case 1: addPart<1>(index, parts, dims); break;
          case 2: addPart<2>(index, parts, dims); break;
          case 3: addPart<3>(index, parts, dims); break;
          default: addPart<4>(index, parts, dims);
        }
      }
    }
  }

  /// Adds `Count` tiles of dimensions of a part; beside the first of them, computes the weights of the next part.
  template <int Count>
  void addPart(int index, int parts, int dims) {
    const Part part = partAt(index);
    const bool weighsNext = dims == 0 && index + 1 < parts;
    const Part next = weighsNext ? partAt(index + 1) : Part{};
    const size_t chunkBytes = static_cast<size_t>(valueTiles(job_.kv)) * kTileBytes;
    float* sums = state_.values + static_cast<size_t>(row_ + part.tile * kTileRows) * job_.kv.valueDims + dims * kLanes;
    const size_t stride = static_cast<size_t>(job_.kv.valueDims) * 4;
    loadSums<Count>(index < tiles_, sums, stride);
    for (int chunk = 0; chunk < part.chunks || chunk < next.chunks; ++chunk) {
      if (chunk < part.chunks) {
        multiplyValues<Count>(weightsOf(index, chunk),
                              partition_.values + (part.chunk + chunk) * chunkBytes + dims * kTileBytes);
      }
      if (chunk < next.chunks) weighChunk(index + 1, next, chunk);
    }
    storeTileSums<Count>(sums, stride);
  }

  const AttentionJob& job_;
  const AttentionTask& task_;
  const Partition& partition_;
  const Workspace& work_;
  const AttentionState& state_;
  const int row_;
  const int group_;
  const int rows_;
  const int tiles_;
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
  const FullTiles tiles;
  const int rows = task.tokens * (job.heads / job.kvHeads);
  for (int row = 0; row < rows; row += kBlockOfRows) Block(job, task, partition, work, scratch, state, row).run(tokens);
}

}  // namespace

void addAttention(KernelSet& set) {
  set.attention[1] = {256, &scratchBytes, &loadQueriesOfTiles, &attendOnTiles, &finish<uint16_t>};
}

}  // namespace svc::cpu::amx
