// A step's arrays on the device, and the ops that read them.

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

#include "backend/not_available.h"
#include "cuda/cuda_backend.h"

namespace svc::cuda {
namespace {

KvRow kvRow(const StepInputs& step, int layer) { return static_cast<const DeviceKvCache&>(*step.cache).row(layer); }

const float* numbersOf(const Vector* vector) {
  return vector == nullptr ? nullptr : static_cast<const DeviceVector*>(vector)->values.at<float>();
}

int groupOf(const StepInputs& step, int layer) { return step.cache->shape.layers.of[static_cast<size_t>(layer)].group; }

/// Whether rows of some sequences see the tokens after them, and those of others do not.
bool isMixed(const StepInputs& step, Ahead ahead) { return ahead == Ahead::ByStep && !step.bidirectional.empty(); }

/// Rows of the longest sequence.
int longestQuery(const StepInputs& step) {
  int longest = 0;
  for (int i = 0; i < step.sequences(); ++i) longest = std::max(longest, step.queryStarts[i + 1] - step.queryStarts[i]);
  return longest;
}

/// The block tables with `maxBlocks` places for each sequence.
std::vector<int32_t> widenedTables(const StepInputs& step, int maxBlocks) {
  const size_t tables = step.maxBlocks == 0 ? 0 : step.blockTables.size() / step.maxBlocks;
  std::vector<int32_t> wide(tables * maxBlocks, 0);
  for (size_t i = 0; i < tables; ++i) std::copy_n(&step.blockTables[i * step.maxBlocks], step.maxBlocks, &wide[i * maxBlocks]);
  return wide;
}

/// None where nothing keeps states.
std::vector<AttentionTile> stateTilesOf(const StepInputs& step) {
  std::vector<AttentionTile> tiles;
  const AttentionPlan cut{kConvolvedRows, kConvolvedRows, false};
  if (!step.stateSlots.empty()) eachTile(cut, step.queryStarts.data(), step.sequences(), [&](AttentionTile tile) { tiles.push_back(tile); });
  return tiles;
}

std::vector<SavedState> stateSavesOf(const StepInputs& step) {
  std::vector<SavedState> saves;
  for (const StateSave& save : step.stateSaves) saves.push_back({save.sequence, save.tokens, save.slot});
  return saves;
}

bool areSame(const std::vector<AttentionTile>& a, const std::vector<AttentionTile>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(AttentionTile)) == 0;
}

/// Of the states of chunks that several blocks of threads share.
constexpr size_t kMostStateBytes = size_t{384} << 20;

/// Rows `first` and the `count - 1` after it of a step of single tokens, whose first rows they become.
AttentionParams rowsOf(AttentionParams params, int first, int count) {
  params.q += first * params.qStride;
  params.out = static_cast<uint16_t*>(params.out) + first * params.outStride;
  params.contextLengths += first;
  params.blockTables += static_cast<int64_t>(first) * params.maxBlocks;
  if (params.bidirectional != nullptr) params.bidirectional += first;
  params.numTokens = params.numSequences = params.numTiles = count;
  return params;
}

/// Sizes that grow with each token come in powers of 2, so that steps alike are launched alike.
int rounded(int size) { return static_cast<int>(std::bit_ceil(static_cast<unsigned>(size))); }

}  // namespace

Backend::Step CudaBackend::beginStep(StepInputs inputs) {
  auto step = std::make_shared<const StepInputs>(std::move(inputs));
  step_.maxQuery = longestQuery(*step);
  ++numSteps_;
  stream_.collect(options_.usesGraphs && step_.maxQuery == 1);
  // Ops of the step before may still read its arrays.
  stream_.afterOps([before = std::move(step_.parcel)] {});
  step_.parcel = std::make_shared<Parcel>(staging_);
  step_.positions = step_.parcel->in(step->positions);
  step_.planePositions = step_.parcel->in(step->planePositions);
  step_.slots = step_.parcel->in(step->slots);
  step_.queryStarts = step_.parcel->in(step->queryStarts);
  step_.contextLengths = step_.parcel->in(step->contextLengths);
  step_.maxBlocks = rounded(step->maxBlocks);
  const std::vector<int32_t> tables = widenedTables(*step, step_.maxBlocks);
  step_.blockTables = step_.parcel->in(tables);
  step_.bidirectional = step_.parcel->in(step->bidirectional);
  step_.stateSources = step_.parcel->in(step->stateSources);
  step_.stateSlots = step_.parcel->in(step->stateSlots);
  const std::vector<AttentionTile> stateTiles = stateTilesOf(*step);
  step_.stateTiles = step_.parcel->in(stateTiles);
  const std::vector<SavedState> stateSaves = stateSavesOf(*step);
  step_.stateSaves = step_.parcel->in(stateSaves);
  sendTo(stepMemory_, *step_.parcel);
  const auto longest = std::max_element(step->contextLengths.begin(), step->contextLengths.end());
  step_.maxContext = longest == step->contextLengths.end() ? 0 : *longest;
  return step;
}

RopeParams CudaBackend::ropeParams(const Vector* table, const RopeHeads& heads, Rows x, int64_t cols) const {
  const int32_t* const positions = step_.parcel->device(step_.positions);
  const int32_t* const planes = step_.planePositions.count == 0 ? nullptr : step_.parcel->device(step_.planePositions);
  return {reinterpret_cast<float*>(x.data),
          x.stride,
          {positions, planes == nullptr ? positions : planes, planes == nullptr ? positions : planes + x.rows},
          numbersOf(table),
          x.rows,
          static_cast<int32_t>(cols / heads.headDim),
          heads.headDim,
          heads.first,
          heads.rotaryDim,
          heads.isInterleaved ? 1 : 0,
          heads.lines,
          heads.columns,
          heads.alternate ? 1 : 0};
}

StreamPosition CudaBackend::rope(const Step&, const Vector& table, const RopeHeads& heads, Rows x, int64_t cols) {
  const RopeParams params = ropeParams(&table, heads, x, cols);
  return run(launchOf(params), params);
}

StoreKvParams CudaBackend::storeParams(const Step& step, int layer, Rows k, Rows v) const {
  const int32_t* const slots = step_.parcel->device(step_.slots);
  return {reinterpret_cast<const float*>(k.data), k.stride, reinterpret_cast<const float*>(v.data), v.stride,
          slots + groupOf(*step, layer) * step->tokens(), kvRow(*step, layer), k.rows};
}

StreamPosition CudaBackend::storeKv(const Step& step, int layer, Rows k, Rows v) {
  const StoreKvParams params = storeParams(step, layer, k, v);
  return run(launchOf(params), params);
}

StreamPosition CudaBackend::prepareHeads(const Step& step, const HeadPreparation& how, Rows q, int64_t cols, Rows k, Rows v) {
  if (step->cache->shape.headsOf(how.layer).dim > kPreparedMaxHeadDim) return Backend::prepareHeads(step, how, q, cols, k, v);
  const PrepareHeadsParams params{ropeParams(how.queryTable, how.rope, q, cols), numbersOf(how.keyTable), storeParams(step, how.layer, k, v),
                                  numbersOf(how.queryNorm), numbersOf(how.keyNorm), how.eps};
  return run(launchOf(params), params);
}

StreamPosition CudaBackend::attention(const Step& step, const AttentionOptions& options, Rows q, Rows out) {
  const KvCacheShape& shape = step->cache->shape;
  const KvHeads heads = shape.headsOf(options.layer);
  const int group = options.heads / heads.count;
  const bool isF32 = shape.format == KvFormat::F32;
  if (!isF32 && !shape.keysAreValues && !canAttend(heads.dim, group)) {
    throw NotAvailable(std::to_string(group) + " query heads a KV head are not available yet with --device cuda: use --device cpu");
  }
  if (q.rows == 0) return stream_.endOp();
  const int maxContext = rounded(step_.maxContext);
  const size_t tablesBefore = static_cast<size_t>(groupOf(*step, options.layer)) * step->sequences() * step_.maxBlocks;
  AttentionParams params{};
  params.q = reinterpret_cast<const float*>(q.data);
  params.qStride = q.stride;
  params.out = out.data;
  params.outStride = out.stride;
  params.kv = kvRow(*step, options.layer);
  params.queryStarts = step_.parcel->device(step_.queryStarts);
  params.contextLengths = step_.parcel->device(step_.contextLengths);
  params.blockTables = step_.parcel->device(step_.blockTables) + tablesBefore;
  params.sinks = numbersOf(options.sinks);
  params.scale = options.scale;
  params.softcap = options.softcap;
  params.heads = options.heads;
  params.maxBlocks = step_.maxBlocks;
  params.numTokens = q.rows;
  params.numSequences = step->sequences();
  params.window = static_cast<int32_t>(options.window);
  params.ownChunk = static_cast<int32_t>(options.chunk);
  params.isBidirectional = options.ahead == Ahead::All ? 1 : 0;
  if (isMixed(*step, options.ahead)) params.bidirectional = step_.parcel->device(step_.bidirectional);
  if (isF32) return run(f32Launch(params), params);
  if ((reinterpret_cast<uint64_t>(q.data) | q.stride * sizeof(float)) % 16 != 0) {
    throw std::runtime_error("rows of the queries of attention must begin at multiples of 16 bytes");
  }
  const Tiles& tiles = tilesFor(*step, heads, group);
  params.tiles = tiles.memory.at<AttentionTile>();
  params.numTiles = static_cast<int32_t>(tiles.sent.size());
  params.maxChunks = ceilDiv(maxContext, kKvChunk);
  const bool canSchedule = shape.format == KvFormat::Half && !shape.keysAreValues;
  if (canSchedule && (step_.maxQuery == 1 ? options_.schedulesDecode : options_.schedulesPrefill)) {
    const DeviceSchedule& schedule = scheduleFor(*step, options, tiles);
    params.partials = scratch(sizeof(float) * schedule.states * stateSize(tiles.plan, heads.dim));
    params.schedule = schedule.arrays;
    params.rowsPerBlock = tiles.plan.rows;
    launch(scheduledLaunch(params, tiles.plan, schedule.works), params);
    launch(mergeLaunch(schedule.cuts), params);
    return stream_.endOp();
  }
  if (tiles.few > 0) {
    attendMixed(params, tiles);
    return stream_.endOp();
  }
  const size_t rowBytes = attentionPartialBytes(tiles.plan, 1, options.heads, heads.dim, maxContext);
  if (rowBytes * q.rows <= kMostStateBytes) {
    params.partials = scratch(rowBytes * q.rows);
    attend(params, tiles.plan);
    return stream_.endOp();
  }
  // Each sequence has one row.
  const int atOnce = std::max(1, static_cast<int>(kMostStateBytes / rowBytes));
  params.partials = scratch(rowBytes * atOnce);
  for (int row = 0; row < q.rows; row += atOnce) attend(rowsOf(params, row, std::min(atOnce, q.rows - row)), tiles.plan);
  return stream_.endOp();
}

void CudaBackend::attend(const AttentionParams& params, const AttentionPlan& plan) {
  if (params.kv.keysAreValues != 0) {
    const LatentAttentionParams latent = latentParams(params, plan, sharedBytes_);
    launch(launchOf(latent, plan), latent);
  } else {
    launch(launchOf(params, plan), params);
  }
  if (params.partials != nullptr) launch(combineLaunch(params), params);
}

/// Sequences that get a token beside prompts have the kernel of few rows, whose blocks have more threads for each.
void CudaBackend::attendMixed(AttentionParams params, const Tiles& tiles) {
  params.numTiles -= tiles.few;
  attend(params, tiles.plan);
  params.tiles += params.numTiles;
  params.numTiles = tiles.few;
  attend(params, {kFewRows, kFewRows / tiles.group, false});
}

const CudaBackend::Tiles& CudaBackend::tilesFor(const StepInputs& step, KvHeads heads, int group) {
  auto found = std::find_if(tiles_.begin(), tiles_.end(), [&](const Tiles& one) { return one.heads == heads && one.group == group; });
  if (found == tiles_.end()) {
    tiles_.push_back({heads, group});
    found = std::prev(tiles_.end());
  }
  if (found->step != numSteps_) sendTiles(*found, step);
  found->step = numSteps_;
  return *found;
}

void CudaBackend::sendTiles(Tiles& to, const StepInputs& step) {
  const auto& [heads, group] = std::tie(to.heads, to.group);
  const bool isLatent = step.cache->shape.keysAreValues;
  to.plan = isLatent ? planLatent(group, heads.dim, step_.maxQuery, step.sequences() * heads.count, sharedBytes_)
                     : planAttention(group, heads.dim, step_.maxQuery, step.sequences() * attentionParts(heads.count, heads.dim), multiprocessors_,
                                     sharedBytes_);
  std::vector<AttentionTile> tiles;
  eachTile(to.plan, step.queryStarts.data(), step.sequences(), [&](AttentionTile tile) { tiles.push_back(tile); });
  auto few = tiles.end();
  if (!isLatent && to.plan.rows > kFewRows) {
    few = std::stable_partition(tiles.begin(), tiles.end(), [&](const AttentionTile& tile) { return tile.numTokens * group > kFewRows; });
  }
  to.few = static_cast<int>(tiles.end() - few);
  if (areSame(tiles, to.sent)) return;
  auto parcel = std::make_shared<Parcel>(staging_);
  parcel->in(tiles);
  sendTo(to.memory, *parcel);
  stream_.afterOps([parcel] {});
  to.sent = std::move(tiles);
}

const CudaBackend::DeviceSchedule& CudaBackend::scheduleFor(const StepInputs& step, const AttentionOptions& options,
                                                            const Tiles& tiles) {
  const int window = static_cast<int>(options.window), ownChunk = static_cast<int>(options.chunk);
  auto found = std::find_if(schedules_.begin(), schedules_.end(), [&](const DeviceSchedule& one) {
    return one.heads == tiles.heads && one.group == tiles.group && one.window == window && one.ownChunk == ownChunk &&
           one.ahead == options.ahead;
  });
  if (found == schedules_.end()) {
    schedules_.push_back({tiles.heads, tiles.group, window, ownChunk, options.ahead});
    found = std::prev(schedules_.end());
  }
  if (found->step != numSteps_) sendSchedule(*found, step, tiles);
  found->step = numSteps_;
  return *found;
}

void CudaBackend::sendSchedule(DeviceSchedule& to, const StepInputs& step, const Tiles& tiles) {
  const int32_t* const bidirectional = isMixed(step, to.ahead) ? step.bidirectional.data() : nullptr;
  const AttentionView view{step.queryStarts.data(), step.contextLengths.data(), bidirectional, to.window, to.ownChunk, to.ahead == Ahead::All};
  const int blocks = multiprocessors_ * residentBlocks(to.heads.dim, tiles.plan.rows, sharedBytes_);
  const int parts = attentionParts(to.heads.count, to.heads.dim);
  const auto mostStates = static_cast<int>(kMostStateBytes / sizeof(float) / stateSize(tiles.plan, to.heads.dim));
  Schedule schedule = makeSchedule(tiles.sent, view, parts, blocks, mostStates);
  to.works = mostWorks(tiles.sent.size(), parts, blocks);
  to.cuts = blocks;
  // Of any schedule of such contexts.
  to.states = std::min(mostStates, blocks * ceilDiv(rounded(step_.maxContext), kKvChunk));
  const std::vector<int32_t> numbers = {static_cast<int32_t>(schedule.works.size()), static_cast<int32_t>(schedule.cuts.size())};
  // At the same places in each step.
  schedule.cuts.resize(blocks);
  auto parcel = std::make_shared<Parcel>(staging_);
  const auto counts = parcel->in(numbers);
  const auto cuts = parcel->in(schedule.cuts);
  const auto works = parcel->in(schedule.works);
  sendTo(to.memory, *parcel);
  stream_.afterOps([parcel] {});
  to.arrays = {parcel->device(works), parcel->device(cuts), parcel->device(counts)};
}

}  // namespace svc::cuda
