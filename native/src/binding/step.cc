// beginStep, and the ops that read its arrays. beginStep checks every index into the KV memory, once a step.

#include <algorithm>
#include <climits>

#include "backend/state_moves.h"
#include "binding/backend_object.h"

namespace svc {
namespace {

void checkSequence(const Args& a, const StepInputs& step, int sequence) {
  const KvCacheShape& shape = step.cache->shape;
  const int rows = step.queryStarts[sequence + 1] - step.queryStarts[sequence];
  const int context = step.contextLengths[sequence];
  const int64_t room = int64_t{step.maxBlocks} * shape.blockSize;
  if (rows < 0 || context < rows || context > room) {
    a.fail("sequence " + std::to_string(sequence) + " with 0 <= rows <= contextLength <= " + std::to_string(room),
           std::to_string(rows) + " rows, contextLength " + std::to_string(context));
  }
  const int blocks = (context + shape.blockSize - 1) / shape.blockSize;
  bool isOutside = false;
  for (int group = 0; group < shape.layers.groups; ++group) {
    const int32_t* table = step.tableOf(group, sequence);
    for (int i = 0; i < blocks; ++i) isOutside |= table[i] < 0 || table[i] >= shape.blocks;
  }
  if (isOutside) {
    a.fail("block ids below " + std::to_string(shape.blocks), "another in sequence " + std::to_string(sequence));
  }
}

/// Of the sequences' adapters, or -1; neighbours of one adapter together.
std::vector<AdapterRows> adapterRowsOf(const std::vector<int32_t>& queryStarts, Span<const int32_t> adapters) {
  std::vector<AdapterRows> all;
  for (int64_t i = 0; i < adapters.length; ++i) {
    const int32_t adapter = adapters.data[i];
    const int begin = queryStarts[i], end = queryStarts[i + 1];
    if (adapter < 0 || begin == end) continue;
    if (!all.empty() && all.back().adapter == adapter && all.back().end == begin) {
      all.back().end = end;
    } else {
      all.push_back({adapter, begin, end});
    }
  }
  return all;
}

/// Of a token whose keys and values are not kept, and of a sequence whose state is not.
constexpr int64_t kNoSlot = -1;

/// None is written twice, or read for another sequence: sequences are computed side by side.
void checkStatesApart(const Args& a, const StepInputs& step) {
  std::vector<bool> isWritten(step.cache->shape.states.slots);
  const auto write = [&](int32_t slot) {
    if (slot == kNoSlot) return;
    if (isWritten[slot]) a.fail("state slots of one sequence each", "one of several");
    isWritten[slot] = true;
  };
  for (const int32_t slot : step.stateSlots) write(slot);
  for (const StateSave& save : step.stateSaves) write(save.slot);
  for (int i = 0; i < step.sequences(); ++i) {
    const int32_t source = step.stateSources[i];
    if (source != kNoSlot && source != step.stateSlots[i] && isWritten[source]) {
      a.fail("state slots of one sequence each", "one of several");
    }
  }
}

/// See `StateArrays` in src/ops/ops.ts.
void takeStates(const Args& a, StepInputs& step, Span<const int32_t> sources, Span<const int32_t> slots,
                Span<const int32_t> saves) {
  const int numSlots = step.cache->shape.states.slots;
  a.expectEqual("state sources", step.sequences(), sources.length);
  a.expectEqual("state slots", step.sequences(), slots.length);
  a.expectWithin("state sources", sources, kNoSlot, numSlots);
  a.expectWithin("state slots", slots, kNoSlot, numSlots);
  if (saves.length % 3 != 0) a.fail("saves of three numbers", std::to_string(saves.length));
  step.stateSources = sources.copy();
  step.stateSlots = slots.copy();
  for (int64_t i = 0; i < saves.length; i += 3) {
    const StateSave save{saves.data[i], saves.data[i + 1], saves.data[i + 2]};
    const bool isSequence = save.sequence >= 0 && save.sequence < step.sequences();
    if (!isSequence || save.tokens < 1 || save.tokens > step.rowsOf(save.sequence) || save.slot < 0 || save.slot >= numSlots) {
      a.fail("saves of the rows of a sequence, in slots below " + std::to_string(numSlots),
             std::to_string(save.tokens) + " rows of sequence " + std::to_string(save.sequence) + " in " + std::to_string(save.slot));
    }
    step.stateSaves.push_back(save);
  }
  checkStatesApart(a, step);
}

/// [slot, whether it leaves, count, block * count] one after the other.
void takeStateMoves(const Args& a, StepInputs& step, Span<const int32_t> moves) {
  const KvCache& cache = *step.cache;
  const auto expect = [&](bool isRight) {
    if (!isRight) a.fail("moves of states: [slot, 1 or 0, count, block * count] of slots and blocks of the cache, with room for a state", "others");
  };
  for (int64_t i = 0; i < moves.length;) {
    expect(moves.length - i >= 3);
    const int32_t slot = moves.data[i], isLeaving = moves.data[i + 1], count = moves.data[i + 2];
    expect(slot >= 0 && slot < cache.shape.states.slots && (isLeaving == 0 || isLeaving == 1));
    expect(count >= 0 && count <= moves.length - i - 3 && count * stateRoom(cache) >= stateBytes(cache.shape.states));
    const int32_t* const first = moves.data + i + 3;
    StateMove move{slot, isLeaving == 1, {first, first + count}};
    for (const int32_t block : move.blocks) expect(block >= 0 && block < cache.shape.blocks);
    step.stateMoves.push_back(std::move(move));
    i += 3 + count;
  }
}

/// -1 of none.
int32_t largestOf(Span<const int32_t> values) {
  return values.length == 0 ? -1 : *std::max_element(values.data, values.data + values.length);
}

std::vector<int32_t> firstOf(Span<const int32_t> values, int64_t count) { return {values.data, values.data + count}; }

}  // namespace

/// beginStep(cache, positions, planePositions, slots, sequences, queryStarts, contextLengths, blockTables, maxBlocks, bidirectional, sends,
/// adapters, stateSources, stateSlots, stateSaves, stateMoves): its number.
Napi::Value BackendObject::beginStep(const Info& info) {
  Args a = args("beginStep", info);
  const KvCache& cache = cacheAt(a);
  const Span<const int32_t> positions = a.int32s(0), planes = a.int32s(0), slots = a.int32s(0);
  const int64_t sequences = a.integerIn(0, 1 << 20, "sequences");
  const Span<const int32_t> starts = a.int32s(sequences + 1), contexts = a.int32s(sequences), tables = a.int32s(0);
  const int64_t maxBlocks = a.integerIn(0, 1 << 26, "maxBlocks");
  const Span<const int32_t> bidirectional = a.int32s(0), sends = a.int32s(0), adapters = a.int32s(0);
  const Span<const int32_t> sources = a.int32s(0), stateSlots = a.int32s(0), saves = a.int32s(0), moves = a.int32s(0);
  a.expectBelow("positions", positions, INT32_MAX);
  a.expectBelow("planePositions", planes, INT32_MAX);
  if (planes.length > 0) a.expectEqual("planePositions", 2 * positions.length, planes.length);
  a.expectEqual("slots", positions.length * cache.shape.layers.groups, slots.length);
  a.expectWithin("slots", slots, kNoSlot, int64_t{cache.shape.blocks} * cache.shape.blockSize);
  a.expectEqual("a first row of", 0, starts.data[0]);
  a.expectEqual("query rows", positions.length, starts.data[sequences]);
  const int64_t tableLength = sequences * maxBlocks * cache.shape.layers.groups;
  if (tables.length < tableLength) {
    a.fail("blockTables of " + std::to_string(tableLength), std::to_string(tables.length));
  }
  StepInputs step{&cache,
                  positions.copy(),
                  planes.copy(),
                  slots.copy(),
                  firstOf(starts, sequences + 1),
                  firstOf(contexts, sequences),
                  firstOf(tables, tableLength),
                  static_cast<int>(maxBlocks),
                  std::max(largestOf(positions), largestOf(planes))};
  for (int i = 0; i < step.sequences(); ++i) checkSequence(a, step, i);
  if (bidirectional.length > 0) a.expectEqual("bidirectional", sequences, bidirectional.length);
  step.bidirectional = bidirectional.copy();
  if (adapters.length > 0) a.expectEqual("adapters", sequences, adapters.length);
  step.adapterRows = adapterRowsOf(step.queryStarts, adapters);
  if (cache.shape.states.layers > 0) takeStates(a, step, sources, stateSlots, saves);
  takeStateMoves(a, step, moves);
  const bool isSending = sends.length > 0;
  if (isSending && sendTable_ == nullptr) a.fail("KV memory that is shared", "sends of one that is not");
  step_ = backend().beginStep(std::move(step));
  if (!step_->stateMoves.empty()) backend().moveStates(step_);
  isSending_ = isSending;
  // In the order of the ops: steps before may still be storing.
  if (isSending_) backend().callback([table = sendTable_, sends = sends.copy()] { table->onStep(sends); });
  return Napi::Number::New(info.Env(), static_cast<double>(++stepId_));
}

const Backend::Step& BackendObject::stepAt(Args& args) {
  if (args.integer() != stepId_ || step_ == nullptr) args.fail("the step that was begun last", "another");
  return step_;
}

/// headDim, first, rotaryDim, isInterleaved, lines, columns, alternate
RopeHeads BackendObject::ropeHeadsAt(Args& a) {
  const int64_t headDim = a.integerIn(1, 1 << 16, "headDim");
  const int64_t first = a.integerIn(0, headDim - 1, "first");
  const int64_t rotaryDim = a.integerIn(1, headDim - first, "rotaryDim");
  const bool isInterleaved = a.boolean();
  const int64_t lines = a.integerIn(0, rotaryDim / 2, "lines");
  const int64_t columns = a.integerIn(0, rotaryDim / 2 - lines, "columns");
  return {static_cast<int>(headDim), static_cast<int>(first),   static_cast<int>(rotaryDim), isInterleaved,
          static_cast<int>(lines),   static_cast<int>(columns), a.boolean()};
}

void BackendObject::checkRope(const Args& a, const RopeHeads& heads, const Vector& table, int64_t cols) const {
  if (heads.headDim % 2 != 0 || cols % heads.headDim != 0) {
    a.fail("whole heads of " + std::to_string(heads.headDim), std::to_string(cols));
  }
  if (heads.rotaryDim % 2 != 0) a.fail("an even rotaryDim", std::to_string(heads.rotaryDim));
  const int64_t end = table.length / heads.rotaryDim;
  if (step_->lastPosition < end) return;
  a.expectBelow("positions", {step_->positions.data(), step_->tokens()}, end);
  a.expectBelow("planePositions", {step_->planePositions.data(), static_cast<int64_t>(step_->planePositions.size())}, end);
}

/// rope(table, heads[7], step, x[4])
Napi::Value BackendObject::rope(const Info& info) {
  Args a = args("rope", info);
  const Vector& table = vectorAt(a);
  const RopeHeads heads = ropeHeadsAt(a);
  const Backend::Step& step = stepAt(a);
  const int64_t cols = a.peekCols();
  const Rows x = a.rows(DType::F32, cols);
  a.expectEqual("rows of x", step->tokens(), x.rows);
  checkRope(a, heads, table, cols);
  return recorded(info, a, backend().rope(step, table, heads, x, cols));
}

/// Of what has stored the keys and values of a layer. Layers that share a row are one to a transfer.
StreamPosition BackendObject::stored(int layer, StreamPosition position) {
  const int row = step_->cache->shape.layers.fullRow[static_cast<size_t>(layer)];
  if (!isSending_ || row < 0) return position;
  return backend().callback([table = sendTable_, row] { table->onLayerSaved(static_cast<uint32_t>(row)); });
}

/// storeKv(step, layer, k[4], v[4]): v is not read where the keys are the values.
Napi::Value BackendObject::storeKv(const Info& info) {
  Args a = args("storeKv", info);
  const Backend::Step& step = stepAt(a);
  const KvCacheShape& shape = step->cache->shape;
  const int layer = static_cast<int>(a.integerIn(0, shape.layers.count() - 1, "a layer"));
  const int64_t width = shape.headsOf(layer).width();
  const Rows k = a.rows(DType::F32, width), v = a.rows(DType::F32, width);
  a.expectEqual("rows of k", step->tokens(), k.rows);
  a.expectEqual("rows of v", step->tokens(), v.rows);
  return recorded(info, a, stored(layer, backend().storeKv(step, layer, k, v)));
}

/// prepareHeads(step, layer, queryNorm or -1, keyNorm or -1, eps, queryTable or -1, keyTable or -1, heads[7], q[4], k[4], v[4])
Napi::Value BackendObject::prepareHeads(const Info& info) {
  Args a = args("prepareHeads", info);
  const Backend::Step& step = stepAt(a);
  const KvCacheShape& shape = step->cache->shape;
  HeadPreparation how{};
  how.layer = static_cast<int>(a.integerIn(0, shape.layers.count() - 1, "a layer"));
  how.queryNorm = vectorOrNullAt(a);
  how.keyNorm = vectorOrNullAt(a);
  how.eps = static_cast<float>(a.real());
  how.queryTable = vectorOrNullAt(a);
  how.keyTable = vectorOrNullAt(a);
  how.rope = ropeHeadsAt(a);
  const KvHeads heads = shape.headsOf(how.layer);
  const int64_t cols = a.peekCols(), width = heads.width();
  const Rows q = a.rows(DType::F32, cols), k = a.rows(DType::F32, width), v = a.rows(DType::F32, width);
  for (const Rows& rows : {q, k, v}) a.expectEqual("rows", step->tokens(), rows.rows);
  if (shape.keysAreValues) a.fail("a cache of keys and values", "one of keys alone");
  if ((how.queryNorm == nullptr) != (how.keyNorm == nullptr)) a.fail("norms of queries and keys", "one of the two");
  for (const Vector* norm : {how.queryNorm, how.keyNorm}) {
    if (norm != nullptr) a.expectEqual("weights of heads of", heads.dim, norm->length);
  }
  if ((how.queryTable == nullptr) != (how.keyTable == nullptr)) a.fail("tables of queries and keys", "one of the two");
  a.expectEqual("headDim", heads.dim, how.rope.headDim);
  if (cols % heads.dim != 0) a.fail("whole heads of " + std::to_string(heads.dim), std::to_string(cols));
  for (const Vector* table : {how.queryTable, how.keyTable}) {
    if (table != nullptr) checkRope(a, how.rope, *table, cols);
  }
  return recorded(info, a, stored(how.layer, backend().prepareHeads(step, how, q, cols, k, v)));
}

/// attention(step, layer, ahead, scale, window or 0, chunk or 0, softcap or 0, sinks or -1, q[4], out[4])
Napi::Value BackendObject::attention(const Info& info) {
  Args a = args("attention", info);
  const Backend::Step& step = stepAt(a);
  const KvCacheShape& shape = step->cache->shape;
  AttentionOptions options{};
  options.layer = static_cast<int>(a.integerIn(0, shape.layers.count() - 1, "a layer"));
  options.ahead = static_cast<Ahead>(a.integerIn(0, 2, "who sees ahead"));
  options.scale = static_cast<float>(a.real());
  options.window = a.integerIn(0, INT_MAX, "a window");
  const bool seesAhead = options.ahead == Ahead::All || (options.ahead == Ahead::ByStep && !step->bidirectional.empty());
  options.chunk = a.integerIn(0, seesAhead ? 0 : INT_MAX, "a chunk");
  options.softcap = static_cast<float>(a.real());
  options.sinks = vectorOrNullAt(a);
  const int64_t cols = a.peekCols();
  const Rows q = a.rows(DType::F32, cols);
  const DType dtype = attentionDType(shape.format, a.half());
  const Rows out = a.rows(dtype, cols, paddedCols(dtype, cols));
  const KvHeads kvHeads = shape.headsOf(options.layer);
  const int64_t headGroup = kvHeads.width();
  if (cols == 0 || cols % headGroup != 0) {
    a.fail("q columns a multiple of " + std::to_string(headGroup), std::to_string(cols));
  }
  a.expectEqual("rows of q", step->tokens(), q.rows);
  a.expectEqual("rows of the output", q.rows, out.rows);
  options.heads = static_cast<int>(cols / kvHeads.dim);
  if (!(options.softcap >= 0.0f)) a.fail("a softcap above 0, or 0", std::to_string(options.softcap));
  if (options.sinks != nullptr) a.expectEqual("sinks", options.heads, options.sinks->length);
  return recorded(info, a, backend().attention(step, options, q, out));
}

}  // namespace svc
