// How the host launches each kernel: its name, the grid and the block of threads, and how work is cut. Nothing here changes
// a bit of a result.
#pragma once

#include <cstddef>

#include "params.h"

namespace svc::cuda {

struct Launch {
  const char* kernel;
  uint32_t grid[3];
  uint32_t block;
  uint32_t sharedBytes;
};

constexpr double largest(double a, double b, double c) { return a < b ? (b < c ? c : b) : a < c ? c : a; }
constexpr int ceilDiv(int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b); }

// ── rows ──

constexpr int kRowThreads = 256;

/// A thread for each number, kRowThreads of a row a block.
inline Launch rowLaunch(const char* kernel, int rows, int64_t cols) {
  return {kernel, {static_cast<uint32_t>(rows), static_cast<uint32_t>(ceilDiv(cols, kRowThreads)), 1}, kRowThreads, 0};
}

inline Launch launchOf(const EmbeddingParams& p) { return rowLaunch("svcEmbedding", p.rows, p.cols); }
inline Launch launchOf(const RopeParams& p) {
  return rowLaunch("svcRope", p.rows, int64_t{p.heads} * p.rotaryDim / 2);
}
inline Launch launchOf(const StoreKvParams& p) {
  // A warp for each head's key and value.
  if (p.kv.form == KvForm::Int8) {
    const int vectors = (p.kv.keysAreValues ? 1 : 2) * p.kv.kvHeads;
    return {"svcStoreInt8Kv", {static_cast<uint32_t>(p.rows), static_cast<uint32_t>(vectors), 1}, 32, 0};
  }
  return rowLaunch("svcStoreKv", p.rows, int64_t{p.kv.kvHeads} * p.kv.headDim);
}
inline Launch launchOf(const GatherRowsParams& p) { return rowLaunch("svcGatherRows", p.rows, p.rowBytes / 2); }
inline Launch launchOf(const PlaceColumnsParams& p) {
  const Launch one = rowLaunch("svcPlaceColumns", p.rows, p.partRowBytes / 2);
  return {one.kernel, {one.grid[0], one.grid[1], static_cast<uint32_t>(p.ranks)}, one.block, 0};
}
inline Launch launchOf(const SumRanksParams& p) { return rowLaunch("svcSumRanks", p.rows, p.cols); }
inline Launch launchOf(const MeanRowsParams& p) { return rowLaunch("svcMeanRows", p.rows, p.cols); }

inline Launch activateLaunch(const ElementwiseParams& p) { return rowLaunch("svcActivate", p.rows, p.cols); }
inline Launch launchOf(const CastParams& p) { return rowLaunch("svcCast", p.rows, p.cols); }
inline Launch launchOf(const XieluParams& p) { return rowLaunch("svcXielu", p.rows, p.cols); }
/// out += x * value
inline Launch addScaledLaunch(const ElementwiseParams& p) { return rowLaunch("svcAddScaled", p.rows, p.cols); }
inline Launch scaleLaunch(const ElementwiseParams& p) { return rowLaunch("svcScale", p.rows, p.cols); }
inline Launch softcapLaunch(const ElementwiseParams& p) { return rowLaunch("svcSoftcap", p.rows, p.cols); }
inline Launch clipLaunch(const ElementwiseParams& p) { return rowLaunch("svcClip", p.rows, p.cols); }

inline Launch launchOf(const ScaleColumnsParams& p) { return rowLaunch("svcScaleColumns", p.rows, p.cols); }
inline Launch launchOf(const AddMixedParams& p) { return rowLaunch("svcAddMixed", p.rows, p.width); }
/// A block for each row, and for each stream that comes of it.
inline Launch launchOf(const SparsifyParams& p) { return {"svcSparsify", {static_cast<uint32_t>(p.rows), 1, 1}, kRowThreads, 0}; }
inline Launch launchOf(const JoinStreamsParams& p) {
  return {"svcJoinStreams", {static_cast<uint32_t>(p.rows), static_cast<uint32_t>(p.streams + 1), 1}, kRowThreads, 0};
}

/// A block for each segment of a row: a warp where it is short. How many threads sum a segment is fixed by its length.
constexpr int kWarpNormColumns = 256;
inline Launch normLaunch(const char* kernel, const char* warpKernel, int rows, int segments, int cols) {
  const bool isShort = cols <= kWarpNormColumns;
  return {isShort ? warpKernel : kernel,
          {static_cast<uint32_t>(rows), static_cast<uint32_t>(segments), 1},
          isShort ? 32 : static_cast<uint32_t>(kRowThreads),
          0};
}
inline Launch launchOf(const RmsNormParams& p) {
  return normLaunch("svcRmsNorm", "svcWarpRmsNorm", p.rows, p.segments, p.cols);
}
inline Launch launchOf(const LayerNormParams& p) {
  return normLaunch("svcLayerNorm", "svcWarpLayerNorm", p.rows, p.segments, p.cols);
}

// ── matrix products ──

/// Numbers of a row of a weight in memory.
constexpr int64_t weightStride(int k) { return ceilDiv(k, 64) * int64_t{64}; }
/// Rows of gate and up together, each of n.
constexpr int gateUpRows(int n) { return ceilDiv(n, 8) * 16; }
/// Where row i of the gate is among them; that of up is 8 further. Rows that neither has are zero.
constexpr int gateUpRow(int i) { return i / 8 * 16 + i % 8; }

/// Rows of a panel of codes, and numbers along k that have a float in common where scales are bytes.
constexpr int kPanelRows = 64;
constexpr int kSuperBlock = 256;

/// Columns of k that are loaded at a time.
constexpr int kTileK = 64;
/// Ranges of k that are summed by themselves and added as a binary tree of neighbours, fixed by the weight, since they order its sums.
constexpr int kSegmentUnit = 32, kMostSegments = 4;
/// Of a weight that is cut so: as few as give all multiprocessors of a large device work with one row of x.
constexpr int segmentsOf(int k) { return k < 4096 ? kMostSegments : 2; }
/// The first column of segment `i`; of `segments`, k or what is just behind it.
constexpr int segmentBegin(int k, int segments, int i) { return ceilDiv(k, kSegmentUnit) * i / segments * kSegmentUnit; }

/// Rows of the weight and rows of x that a block of threads multiplies, and its warps; `svcLinear<tokens>`.
struct LinearTile {
  int weights, tokens, warps, stages;
};
/// With few rows, blocks are few where n is small, and the bytes that each has on their way must keep the memory busy.
constexpr LinearTile kLinearTiles[] = {{64, 8, 4, 6}, {64, 16, 4, 5}, {64, 32, 4, 4}, {64, 64, 4, 3}, {128, 128, 8, 3}};

/// With many rows a block takes all segments: there are blocks enough, and partial sums would cost memory.
constexpr int segmentsPerBlock(int rows, int segments) { return rows > 64 ? segments : 1; }
/// Of LinearParams::partials.
constexpr size_t linearPartialBytes(const LinearParams& p) {
  return p.segmentsPerBlock == p.segments ? 0 : sizeof(float) * (p.segments / p.segmentsPerBlock) * p.rows * p.n;
}
constexpr uint32_t linearSharedBytes(const LinearTile& tile, int segmentsPerBlock) {
  int levels = 0;
  while ((1 << levels) < segmentsPerBlock) ++levels;
  const int loads = tile.stages * (tile.weights + tile.tokens) * kTileK * 2;
  return static_cast<uint32_t>(loads + levels * tile.weights * tile.tokens * 4);
}

/// Shared memory that a block may have on every device: attribute MAX_SHARED_MEMORY_PER_BLOCK_OPTIN tells how much more.
constexpr uint32_t kLeastSharedLimit = 101376;

/// The narrowest tile that holds all rows, or else the widest that has room for the sums of its parts.
constexpr int linearTileOf(int rows, int segmentsPerBlock, uint32_t sharedLimit) {
  int i = 0;
  while (i < 4 && kLinearTiles[i].tokens < rows) ++i;
  while (i > 0 && linearSharedBytes(kLinearTiles[i], segmentsPerBlock) > sharedLimit) --i;
  return i;
}

inline bool isWhole(const LinearParams& p) { return p.columnScales != nullptr; }
/// Which of three kernels multiplies: of halves, of codes, of whole numbers.
inline int kindOf(const LinearParams& p) { return p.codes.panels != nullptr ? 1 : isWhole(p) ? 2 : 0; }

inline void planLinear(LinearParams& p) { p.segmentsPerBlock = segmentsPerBlock(p.rows, p.segments); }
inline Launch launchOf(const LinearParams& p, uint32_t sharedLimit = kLeastSharedLimit) {
  constexpr const char* kNames[][5] = {
      {"svcLinear8", "svcLinear16", "svcLinear32", "svcLinear64", "svcLinear128"},
      {"svcCodedLinear8", "svcCodedLinear16", "svcCodedLinear32", "svcCodedLinear64", "svcCodedLinear128"},
      {"svcWholeLinear8", "svcWholeLinear16", "svcWholeLinear32", "svcWholeLinear64", "svcWholeLinear128"}};
  const int index = linearTileOf(p.rows, p.segmentsPerBlock, sharedLimit);
  const LinearTile& tile = kLinearTiles[index];
  return {kNames[kindOf(p)][index],
          {static_cast<uint32_t>(ceilDiv(p.n, tile.weights)), static_cast<uint32_t>(ceilDiv(p.rows, tile.tokens)),
           static_cast<uint32_t>(p.segments / p.segmentsPerBlock)},
          static_cast<uint32_t>(tile.warps * 32),
          linearSharedBytes(tile, p.segmentsPerBlock)};
}
inline bool needsCombine(const LinearParams& p) { return p.segmentsPerBlock < p.segments; }
inline Launch combineLaunch(const LinearParams& p) {
  return rowLaunch(isWhole(p) ? "svcWholeCombine" : "svcLinearCombine", p.rows, p.activation < 0 ? p.n : p.n / 2);
}

inline Launch launchOf(const CombineNormParams& p) {
  return normLaunch("svcCombineRmsNorm", "svcWarpCombineRmsNorm", p.norm.rows, 1, p.norm.cols);
}

/// On Hopper: wideWeights(tokens) rows of the weight and `tokens` of x that a block multiplies at a time, in as many stages as it has memory for. Few tokens
/// are multiplied sooner than memory gives the weights: more blocks ask it for more, and have more of them there before a product begins.
constexpr int kWideTokens[] = {8, 16, 32, 64, 128, 256};
constexpr int wideWeights(int tokens) { return tokens <= 32 ? 64 : 128; }
/// Four warps multiply 64 rows. One thread of those behind them copies; where registers are handed over, they are four warps too.
constexpr int wideProductThreads(int tokens) { return 2 * wideWeights(tokens); }
constexpr bool handsRegistersOver(int tokens) { return tokens > 64; }
constexpr int wideThreads(int tokens) { return wideProductThreads(tokens) + (handsRegistersOver(tokens) ? 128 : 32); }
constexpr int wideStageBytes(int tokens) { return (wideWeights(tokens) + tokens) * kTileK * 2; }
constexpr int wideStages(int tokens) { return 4 * wideStageBytes(256) / wideStageBytes(tokens); }
/// Of many rows: registers of a thread that copies, and of one of two groups that multiply: all together those that a multiprocessor has.
constexpr int kWideCopyRegisters = 40, kWideProductRegisters = 232;

/// Tiles of so many rows of x, by blocks that take so many segments each.
struct WidePlan {
  int tokens, segmentsPerBlock;
};
constexpr int wideTiles(const LinearParams& p, const WidePlan& plan) {
  return ceilDiv(p.n, wideWeights(plan.tokens)) * ceilDiv(p.rows, plan.tokens) * (p.segments / plan.segmentsPerBlock);
}
/// How long a product takes about, in nanoseconds of an H100: as long as a multiprocessor takes to load and multiply, all of them to get from the cache, or the
/// memory to give.
constexpr double wideCost(const LinearParams& p, const WidePlan& plan, int multiprocessors) {
  constexpr double kBytesOfOne = 100, kBytesOfAll = 7000, kBytesOfMemory = 3000, kMultiplyTokens = 2.7, kCombine = 1000;
  // A sum is one chain of instructions, each of which waits for the one before.
  const double leastStep = 130 + 1.1 * wideWeights(plan.tokens);
  const int tiles = wideTiles(p, plan), waves = ceilDiv(tiles, multiprocessors), parts = p.segments / plan.segmentsPerBlock;
  const double bytes = wideStageBytes(plan.tokens), steps = static_cast<double>(p.k) / kTileK / parts;
  const double ofOne = waves * steps * largest(leastStep, bytes / kBytesOfOne, kMultiplyTokens * plan.tokens);
  const double products = largest(ofOne, tiles * steps * bytes / kBytesOfAll, 2.0 * p.n * p.k / kBytesOfMemory);
  return parts == 1 ? products : products + kCombine + 8.0 * parts * p.rows * p.n / kBytesOfMemory;
}
constexpr WidePlan planWide(const LinearParams& p, int multiprocessors) {
  WidePlan best{kWideTokens[0], p.segments};
  for (const int tokens : kWideTokens) {
    for (int segments = p.segments; segments >= 1; segments /= 2) {
      const WidePlan plan{tokens, segments};
      if (wideCost(p, plan, multiprocessors) < wideCost(p, best, multiprocessors)) best = plan;
    }
  }
  return best;
}
constexpr int wideBlocks(const LinearParams& p, const WidePlan& plan, int multiprocessors) {
  const int tiles = wideTiles(p, plan);
  return tiles < multiprocessors ? tiles : multiprocessors;
}
/// Of the tree of `count` neighbours: sums that wait at a time.
constexpr int levelsOf(int count) { return count < 2 ? 0 : 1 + levelsOf(count / 2); }
/// Of WideLinearParams::waiting.
constexpr size_t wideWaitingBytes(const LinearParams& p, const WidePlan& plan, int multiprocessors) {
  return sizeof(float) * wideBlocks(p, plan, multiprocessors) * levelsOf(plan.segmentsPerBlock) * wideWeights(plan.tokens) * plan.tokens;
}
inline Launch launchOf(const WideLinearParams& p, const WidePlan& plan, int multiprocessors) {
  constexpr const char* kNames[] = {"svcWide8", "svcWide16", "svcWide32", "svcWide64", "svcWide128", "svcWide256"};
  int index = 0;
  while (kWideTokens[index] < plan.tokens) ++index;
  const int stages = wideStages(plan.tokens), barriers = 2 * stages * 8;
  return {kNames[index],
          {static_cast<uint32_t>(wideBlocks(p.product, plan, multiprocessors)), 1, 1},
          static_cast<uint32_t>(wideThreads(plan.tokens)),
          static_cast<uint32_t>(stages * wideStageBytes(plan.tokens) + barriers)};
}

/// A block for each row.
inline Launch launchOf(const QuantizeRowsParams& p) {
  return {"svcQuantizeRows", {static_cast<uint32_t>(p.rows), 1, 1}, kRowThreads, 0};
}
inline Launch launchOf(const TakeColumnsParams& p) { return rowLaunch("svcTakeColumns", p.rows, p.cols); }
inline Launch takeGroupColumnsLaunch(const TakeGroupColumnsParams& p, int tiles) {
  return rowLaunch("svcTakeGroupColumns", tiles, p.take.cols);
}

/// Of f32: rows of the weight and of x that a block of threads multiplies, and the columns that it loads at a time.
constexpr int kF32Weights = 64, kF32Tokens = 16, kF32K = 16, kF32Threads = 256;
inline Launch f32Launch(const LinearParams& p) {
  return {"svcLinearF32",
          {static_cast<uint32_t>(ceilDiv(p.n, kF32Weights)), static_cast<uint32_t>(ceilDiv(p.rows, kF32Tokens)), 1},
          kF32Threads,
          0};
}

// ── products by groups ──

/// The tile for groups of `rows` rows on average: a group with more takes several.
constexpr int groupTileOf(int64_t rows, int segments, uint32_t sharedLimit) {
  return linearTileOf(static_cast<int>(rows < 128 ? rows : 128), segments, sharedLimit);
}
/// The most tiles that `rows` rows of at most `groups` groups are cut in.
constexpr int mostTiles(int64_t rows, int groups, int tileRows) {
  return static_cast<int>(rows / tileRows + (rows < groups ? rows : groups));
}
/// `n` is the most of any group; `tiles` counts tiles, or is 0 where each group takes all rows.
inline Launch groupedLaunch(const GroupedLinearParams& p, int tile, int n, int tiles, int groups) {
  if (p.product.f32 != nullptr) {
    return {"svcF32Groups",
            {static_cast<uint32_t>(ceilDiv(n, kF32Weights)), static_cast<uint32_t>(tiles > 0 ? tiles : ceilDiv(p.product.rows, kF32Tokens)),
             static_cast<uint32_t>(tiles > 0 ? 1 : groups)},
            kF32Threads,
            0};
  }
  constexpr const char* kNames[][5] = {
      {"svcGroupedLinear8", "svcGroupedLinear16", "svcGroupedLinear32", "svcGroupedLinear64", "svcGroupedLinear128"},
      {"svcCodedGroups8", "svcCodedGroups16", "svcCodedGroups32", "svcCodedGroups64", "svcCodedGroups128"},
      {"svcWholeGroups8", "svcWholeGroups16", "svcWholeGroups32", "svcWholeGroups64", "svcWholeGroups128"}};
  const LinearTile& shape = kLinearTiles[tile];
  const int rows = ceilDiv(p.product.rows, shape.tokens);
  return {kNames[kindOf(p.product)][tile],
          {static_cast<uint32_t>(ceilDiv(n, shape.weights)), static_cast<uint32_t>(tiles > 0 ? tiles : rows),
           static_cast<uint32_t>(tiles > 0 ? 1 : groups)},
          static_cast<uint32_t>(shape.warps * 32),
          linearSharedBytes(shape, p.product.segments)};
}

// ── adapters ──

/// Rows that a block adds to at a time.
constexpr int kLoraRows = 8;
/// A tile, and kRowThreads columns.
inline Launch launchOf(const LoraUpParams& p) {
  const int columns = p.n * (p.isGateUp ? 2 : 1);
  return {p.format == Format::F32 ? "svcF32LoraUp" : "svcLoraUp", {static_cast<uint32_t>(ceilDiv(columns, kRowThreads)), static_cast<uint32_t>(p.numTiles), 1}, kRowThreads,
          static_cast<uint32_t>(kLoraRows * p.maxRank * 4)};
}
inline Launch launchOf(const GateParams& p) { return rowLaunch("svcGate", p.rows, p.n); }

// ── experts ──

/// A warp routes a row: scores, what they are chosen by, how good groups are, the chosen, and what is taken.
inline Launch launchOf(const RouteParams& p) {
  const int bytes = (2 * p.experts + p.groups) * 8 + p.topK * 4 + p.experts + p.groups;
  return {"svcRoute", {static_cast<uint32_t>(p.rows), 1, 1}, 32, static_cast<uint32_t>(bytes)};
}
/// A block an expert. How many rows each expert has, and each thread.
inline Launch launchOf(const ExpertRowsParams& p) {
  return {"svcExpertRows", {static_cast<uint32_t>(p.experts), 1, 1}, kRowThreads, static_cast<uint32_t>((p.experts + kRowThreads) * 4)};
}
/// Groups of experts whose outputs are summed by themselves: as many as ranks at most, so that each rank has a subtree of the sum.
constexpr int kExpertGroups = 8;
/// The group g of `experts` * g / 8 <= id < `experts` * (g + 1) / 8, both rounded down.
constexpr int expertGroup(int id, int experts) { return ceilDiv(int64_t{kExpertGroups} * (id + 1), experts) - 1; }
inline Launch launchOf(const WeighInputsParams& p) { return rowLaunch("svcWeighInputs", p.count, p.cols); }
inline Launch launchOf(const ExpertsSumParams& p) { return rowLaunch("svcExpertsSum", p.rows, p.cols); }

// ── attention ──

/// Tokens of keys and values that are loaded at a time, and whose partial results are combined: at absolute positions.
constexpr int kKvTile = 64;
constexpr int kKvChunk = 256;

constexpr int kAttentionMaxHeadDim = 512;
/// Which of the kernels is that for heads of headDim, and the columns that it computes with.
constexpr int attentionKernel(int headDim) { return headDim <= 64 ? 0 : headDim <= 128 ? 1 : headDim <= 256 ? 2 : 3; }
constexpr int attentionWidth(int headDim) { return 64 << attentionKernel(headDim); }
/// Columns of values that a block of threads takes.
constexpr int valueWidth(int width) { return width == 256 ? 128 : width; }
/// Rows of a block with few, and the warps that share them: one alone would be busy for longer than its keys and values take to come, and the columns of
/// the widest heads need the registers of eight.
constexpr int kFewRows = 16;
constexpr int fewSharing(int width) { return width == 512 ? 8 : 4; }
/// Rows of a block with many: a row is one head of one token, and a warp takes 16. Of the widest heads there is room for few alone.
constexpr int manyRows(int width) { return width == 512 ? kFewRows : width == 256 ? 32 : 64; }
inline bool canAttend(int headDim, int group) {
  return headDim % 8 == 0 && headDim <= kAttentionMaxHeadDim && group <= manyRows(attentionWidth(headDim));
}

/// A warp for each head of q, k and v.
constexpr int kPreparedMaxHeadDim = 256;
constexpr int kHeadsPerBlock = kRowThreads / 32;
inline Launch launchOf(const PrepareHeadsParams& p) {
  constexpr const char* kNames[] = {"svcPrepareHeads64", "svcPrepareHeads128", "svcPrepareHeads256"};
  const KvRow& kv = p.store.kv;
  const int blocks = ceilDiv(p.rope.heads + 2 * kv.kvHeads, kHeadsPerBlock);
  return {kNames[attentionKernel(kv.headDim)], {static_cast<uint32_t>(p.store.rows), static_cast<uint32_t>(blocks), 1}, kRowThreads, 0};
}

/// How the sequences of a step are cut: the same for all layers of one head size with as many heads a KV head.
struct AttentionPlan {
  int rows;  // of a block of threads
  int tokensPerTile;
  bool isSplit;
};

/// Calls push(AttentionTile) for each.
template <class Push>
void eachTile(const AttentionPlan& plan, const int32_t* queryStarts, int sequences, const Push& push) {
  for (int i = 0; i < sequences; ++i) {
    const int count = queryStarts[i + 1] - queryStarts[i];
    for (int token = 0; token < count; token += plan.tokensPerTile) {
      push(AttentionTile{i, token, plan.tokensPerTile < count - token ? plan.tokensPerTile : count - token});
    }
  }
}
/// Of AttentionParams::partials.
inline size_t attentionPartialBytes(const AttentionPlan& plan, int tokens, int heads, int headDim, int maxContext) {
  const size_t chunks = static_cast<size_t>(ceilDiv(maxContext, kKvChunk));
  return plan.isSplit && chunks > 1 ? sizeof(float) * tokens * heads * chunks * (headDim + 2) : 0;
}
constexpr int attentionThreads(int width, int rows) { return rows / 16 * (rows == kFewRows ? fewSharing(width) : 1) * 32; }
/// At most; and of the widest heads.
constexpr int kAttentionThreads = 128, kWidestThreads = attentionThreads(512, kFewRows);
/// Tiles of keys and values that are in shared memory at a time.
constexpr int attentionStages(int width) { return width < 256 ? 2 : 1; }
/// Whether values come to the place of their keys once these are multiplied: there is no room for both.
constexpr bool sharesPlace(int width) { return width > 256; }
/// Sums of a thread in shared memory, and one float more: threads begin in different banks.
constexpr int sumStride(int valueWidth) { return valueWidth / 2 + 1; }
/// Where a token's key is: an address, and that of its scale.
constexpr int kKvPlaceBytes = 16;
/// Queries of many rows are in registers, unless heads are too wide.
constexpr bool holdsQueries(int rows, int width) { return rows != kFewRows && width < 256; }
constexpr uint32_t attentionSharedBytes(int width, int rows) {
  const int queries = holdsQueries(rows, width) ? 0 : rows * width * 2;
  const int columns = width + (sharesPlace(width) ? 0 : valueWidth(width));
  const int kv = attentionStages(width) * kKvTile * columns * 2, places = 2 * kKvTile * kKvPlaceBytes;
  const int numbers = rows == kFewRows ? kFewRows * kKvTile : attentionThreads(width, rows) * sumStride(valueWidth(width));
  return static_cast<uint32_t>(kv + queries + places + numbers * 4);
}
static_assert(attentionSharedBytes(128, manyRows(128)) <= kLeastSharedLimit);
static_assert(attentionSharedBytes(512, kFewRows) <= kLeastSharedLimit);
/// Works of each tile: for every KV head, and for columns of its values.
constexpr int attentionParts(int kvHeads, int headDim) {
  return kvHeads * (attentionWidth(headDim) / valueWidth(attentionWidth(headDim)));
}
inline Launch launchOf(const AttentionParams& p, const AttentionPlan& plan) {
  constexpr const char* kNames[][2][4] = {
      {{"svcAttention64", "svcAttention128", "svcAttention256", nullptr},
       {"svcFewAttention64", "svcFewAttention128", "svcFewAttention256", "svcFewAttention512"}},
      {{"svcFp8Attention64", "svcFp8Attention128", "svcFp8Attention256", nullptr},
       {"svcFp8FewAttention64", "svcFp8FewAttention128", "svcFp8FewAttention256", "svcFp8FewAttention512"}},
      {{"svcInt8Attention64", "svcInt8Attention128", "svcInt8Attention256", nullptr},
       {"svcInt8FewAttention64", "svcInt8FewAttention128", "svcInt8FewAttention256", "svcInt8FewAttention512"}}};
  const int width = attentionWidth(p.kv.headDim), form = static_cast<int>(p.kv.form) - static_cast<int>(KvForm::Half);
  return {kNames[form][plan.rows == kFewRows ? 1 : 0][attentionKernel(p.kv.headDim)],
          {static_cast<uint32_t>(p.numTiles), static_cast<uint32_t>(attentionParts(p.kv.kvHeads, p.kv.headDim)),
           p.partials == nullptr ? 1u : static_cast<uint32_t>(p.maxChunks)},
          static_cast<uint32_t>(attentionThreads(width, plan.rows)),
          attentionSharedBytes(width, plan.rows)};
}
/// Of a schedule with so many works at most.
inline Launch scheduledLaunch(const AttentionParams& p, const AttentionPlan& plan, int works) {
  constexpr const char* kNames[][4] = {
      {"svcScheduledAttention64", "svcScheduledAttention128", "svcScheduledAttention256", nullptr},
      {"svcScheduledFewAttention64", "svcScheduledFewAttention128", "svcScheduledFewAttention256", "svcScheduledFewAttention512"}};
  const int width = attentionWidth(p.kv.headDim);
  return {kNames[plan.rows == kFewRows ? 1 : 0][attentionKernel(p.kv.headDim)],
          {static_cast<uint32_t>(works), 1, 1},
          static_cast<uint32_t>(attentionThreads(width, plan.rows)),
          attentionSharedBytes(width, plan.rows)};
}
/// Of f32: a block a head of a token.
inline Launch f32Launch(const AttentionParams& p) {
  return {"svcF32Attention",
          {static_cast<uint32_t>(p.numTokens), static_cast<uint32_t>(p.heads), 1},
          kAttentionThreads,
          static_cast<uint32_t>((2 * p.kv.headDim + kKvTile) * 4)};
}
constexpr int kCombineThreads = 128;
/// With so many cuts at most.
inline Launch mergeLaunch(int blocks) { return {"svcAttentionMerge", {static_cast<uint32_t>(blocks), 1, 1}, kCombineThreads, 0}; }
/// Floats of a state of AttentionParams::partials where works are scheduled.
constexpr int stateSize(const AttentionPlan& plan, int headDim) { return plan.rows * (valueWidth(attentionWidth(headDim)) + 2); }
/// Blocks that a multiprocessor has room for: more threads would need registers that it does not have.
constexpr int residentBlocks(int headDim, int rows, uint32_t sharedLimit) {
  const int width = attentionWidth(headDim), byMemory = static_cast<int>(sharedLimit / attentionSharedBytes(width, rows));
  const int byThreads = (rows == kFewRows ? 384 : 256) / attentionThreads(width, rows);
  return byMemory < 1 ? 1 : byMemory < byThreads ? byMemory : byThreads;
}
/// `maxQuery` rows has the longest sequence of the step. In steps of single tokens chunks are works of their own too, unless the `works` of whole
/// contexts keep the device busy: a block for each chunk that the longest context has would mostly begin for nothing, and states cost memory.
inline AttentionPlan planAttention(int group, int headDim, int maxQuery, int works, int multiprocessors, uint32_t sharedLimit) {
  constexpr int kTurns = 4;  // of all blocks that the device has room for: few of them wait for the last ones
  const int rows = maxQuery * group <= kFewRows ? kFewRows : manyRows(attentionWidth(headDim));
  const int atOnce = multiprocessors * residentBlocks(headDim, rows, sharedLimit);
  return {rows, rows / group, maxQuery == 1 && works < kTurns * atOnce};
}
/// Where `partials` is not null.
inline Launch combineLaunch(const AttentionParams& p) {
  return {"svcAttentionCombine", {static_cast<uint32_t>(p.numTokens), static_cast<uint32_t>(p.heads), 1}, kCombineThreads, 0};
}

/// Of a cache whose keys are its values: `LatentAttention` has so many warps for 16 rows, and 32 rows at most.
constexpr int kLatentWarps = 4, kLatentRows = 32, kLatentThreads = kLatentRows / 16 * kLatentWarps * 32, kLatentMaxHeadDim = 576;
constexpr int latentWidth(int headDim) { return headDim <= 64 ? 64 : kLatentMaxHeadDim; }
constexpr uint32_t latentSharedBytes(int width, int rows, int stages) {
  const int numbers = kLatentRows * (kLatentWarps * 2 + 2), weights = kLatentRows * kKvTile;
  return static_cast<uint32_t>(numbers * 4 + (weights + stages * kKvTile * width + rows * width) * 2);
}
/// Rows of a block: as many as it has memory for.
constexpr int latentRows(int width, uint32_t sharedLimit) { return latentSharedBytes(width, kLatentRows, 1) <= sharedLimit ? kLatentRows : 16; }
constexpr int latentStages(int width, int rows, uint32_t sharedLimit) {
  return latentSharedBytes(width, rows, 2) <= sharedLimit ? 2 : 1;
}
/// Blocks that share the query heads of a KV head of one token.
constexpr int latentParts(int group, int rows) { return ceilDiv(group, rows); }
constexpr bool canAttendLatent(int headDim) { return headDim % 8 == 0 && headDim <= kLatentMaxHeadDim; }
/// As planAttention. Heads have many numbers, so that chunks cost memory: they are taken apart only where there are few blocks.
inline AttentionPlan planLatent(int group, int headDim, int maxQuery, int sequences, uint32_t sharedLimit) {
  constexpr int kBusy = 128;
  const int rows = latentRows(latentWidth(headDim), sharedLimit);
  return {rows, rows < group ? 1 : rows / group, maxQuery == 1 && sequences * latentParts(group, rows) <= kBusy};
}
inline LatentAttentionParams latentParams(const AttentionParams& p, const AttentionPlan& plan, uint32_t sharedLimit) {
  return {p, latentStages(latentWidth(p.kv.headDim), plan.rows, sharedLimit)};
}
inline Launch launchOf(const LatentAttentionParams& p, const AttentionPlan& plan) {
  const AttentionParams& attention = p.attention;
  const int width = latentWidth(attention.kv.headDim);
  const int parts = latentParts(attention.heads / attention.kv.kvHeads, plan.rows);
  constexpr const char* kNames[][2] = {
      {"svcLatent64", "svcLatent576"}, {"svcFp8Latent64", "svcFp8Latent576"}, {"svcInt8Latent64", "svcInt8Latent576"}};
  return {kNames[static_cast<int>(attention.kv.form) - static_cast<int>(KvForm::Half)][width == 64 ? 0 : 1],
          {static_cast<uint32_t>(attention.numTiles), static_cast<uint32_t>(attention.kv.kvHeads * parts),
           attention.partials == nullptr ? 1u : static_cast<uint32_t>(attention.maxChunks)},
          static_cast<uint32_t>(plan.rows / 16 * kLatentWarps * 32),
          latentSharedBytes(width, plan.rows, p.stages)};
}

// ── states of sequences ──

inline Launch launchOf(const GateByParams& p) { return rowLaunch("svcGateBy", p.rows, p.cols); }

/// Rows of a sequence that a block convolves.
constexpr int kConvolvedRows = 32;
constexpr bool canConvolve(int taps) { return taps - 1 <= kConvolvedRows; }
/// A tile, and a thread for each of kRowThreads channels.
inline Launch launchOf(const ConvolveParams& p) { return rowLaunch("svcConvolve", p.numTiles, p.channels); }

/// Threads that share a column of a state, and columns of a block.
constexpr int kStateThreads = 128, kColumnThreads = 4, kBlockColumns = kStateThreads / kColumnThreads;
constexpr int kStateMaxKeyDim = 256;
/// A head of a sequence, and some columns of its state: tokens come one after the other.
inline Launch stateLaunch(const char* const (&kernels)[3], const HeadStateParams& p) {
  return {kernels[p.keyDim <= 64 ? 0 : p.keyDim <= 128 ? 1 : 2],
          {static_cast<uint32_t>(p.numSequences), static_cast<uint32_t>(p.numHeads), static_cast<uint32_t>(ceilDiv(p.valueDim, kBlockColumns))},
          kStateThreads,
          0};
}
inline Launch launchOf(const DeltaParams& p) {
  constexpr const char* kNames[] = {"svcGatedDelta64", "svcGatedDelta128", "svcGatedDelta256"};
  return stateLaunch(kNames, p.heads);
}
inline Launch launchOf(const ScanParams& p) {
  constexpr const char* kNames[] = {"svcSelectiveScan64", "svcSelectiveScan128", "svcSelectiveScan256"};
  return stateLaunch(kNames, p.heads);
}

// ── heads ──

inline Launch launchOf(const PackHeadsParams& p) { return rowLaunch("svcPackHeads", p.rows, int64_t{p.heads} * p.width); }

// ── logits ──

constexpr int kLogitThreads = 1024;

inline Launch logitLaunch(const char* kernel, int rows) {
  return {kernel, {static_cast<uint32_t>(rows), 1, 1}, kLogitThreads, 0};
}
inline Launch launchOf(const RestrictLogitsParams& p) { return logitLaunch("svcRestrictLogits", p.lists.count); }
inline Launch launchOf(const EditLogitsParams& p) { return logitLaunch("svcEditLogits", p.lists.count); }
inline Launch launchOf(const MaskLogitsParams& p) { return logitLaunch("svcMaskLogits", p.count); }
inline Launch launchOf(const LogprobsParams& p) { return logitLaunch("svcLogprobs", p.count); }
inline Launch launchOf(const SampleParams& p) { return logitLaunch("svcSample", p.rows); }

// ── transfers ──

constexpr int kMostCopyParts = 16;
/// Blocks of threads for each piece.
constexpr int copyPartsOf(int64_t bytes) {
  constexpr int64_t kLeast = 16 << 10;
  return bytes >= kLeast * kMostCopyParts ? kMostCopyParts : ceilDiv(bytes, kLeast);
}
inline Launch copyPiecesLaunch(const CopyPiecesParams& p, size_t count) {
  return {"svcCopyPieces", {static_cast<uint32_t>(copyPartsOf(p.bytes)), static_cast<uint32_t>(count), 1}, kRowThreads, 0};
}

// ── probes ──

constexpr int kProbeThreads = 256, kProbeTiles = 8;
/// Blocks that keep every multiprocessor busy.
inline Launch probeLaunch(const char* kernel, int multiprocessors) {
  return {kernel, {static_cast<uint32_t>(multiprocessors * 8), 1, 1}, kProbeThreads, 0};
}
constexpr size_t probeSumBytes(int multiprocessors) { return size_t{8} * multiprocessors * kProbeThreads * 4; }

}  // namespace svc::cuda
