#include <algorithm>

#include "check.h"
#include "cuda/schedule.h"

namespace svc::cuda {
namespace {

/// What every GPU gives a block, an A100, and an H100: latent attention takes more tiles and rows where there is more.
constexpr uint32_t kLimits[] = {kLeastSharedLimit, 166912, 232448};

struct Shape {
  int headDim, kvHeads, group, blockSize;
  int window;
  float softcap;
  bool hasSinks, isBidirectional, keysAreValues;
  KvForm form = KvForm::Half;
  int ownChunk = 0;

  int heads() const { return kvHeads * group; }
  int cols() const { return heads() * headDim; }
  int vectorBytes() const { return form == KvForm::Half ? 2 * headDim : form == KvForm::Fp8 ? headDim : headDim + 4; }
  /// Of one layer in a row that has room for two, and some bytes more.
  int blockBytes() const { return (keysAreValues ? 1 : 2) * kvHeads * blockSize * vectorBytes(); }
  int rowBytes() const { return 2 * blockBytes() + 64; }
};

/// Some last tokens of a sequence, those that a step computes, and whether they see those after them.
struct Query {
  int sequence, context, count;
  bool seesAhead = false;
};

/// Sequences of so many tokens, with all their queries, keys and values.
class Sequences {
 public:
  Sequences(const Kernels& kernels, const Shape& shape, const std::vector<int>& lengths)
      : kernels_(kernels), shape_(shape), lengths_(lengths), sinks_(Numbers(3).floats(shape.heads(), 4)) {
    maxBlocks_ = ceilDiv(*std::max_element(lengths.begin(), lengths.end()), shape.blockSize);
    const int blocks = maxBlocks_ * static_cast<int>(lengths.size()) + 1;
    // Blocks that nobody has written hold no numbers.
    memory_.assign(size_t{1} * blocks * shape.rowBytes() / 2, 0x7fff);
    Numbers numbers(4);
    for (size_t i = 0; i < lengths.size(); ++i) {
      // The blocks of the sequences take turns, from behind.
      for (int block = 0; block < maxBlocks_; ++block)
        tables_.push_back(blocks - 1 - (block * static_cast<int>(lengths.size()) + static_cast<int>(i)));
      q_.push_back(numbers.floats(size_t(lengths[i]) * shape.cols(), 4));
      k_.push_back(numbers.floats(size_t(lengths[i]) * shape.kvHeads * shape.headDim));
      v_.push_back(shape.keysAreValues ? k_.back() : numbers.floats(k_.back().size()));
      store(static_cast<int>(i));
    }
  }

  /// [rows, heads * headDim] of the queries, one below the other. With `blocks`, by a schedule for so many, and at most `mostStates`.
  Halves attend(const std::vector<Query>& queries, uint32_t limit = kLimits[0], int blocks = 0, int mostStates = 1000) const {
    Ints starts = {0}, contexts, tables, ahead;
    Floats q;
    int most = 0, maxContext = 0;
    for (const Query& query : queries) {
      starts.push_back(starts.back() + query.count);
      contexts.push_back(query.context);
      ahead.push_back(query.seesAhead ? 1 : 0);
      tables.insert(tables.end(), &tables_[query.sequence * maxBlocks_], &tables_[query.sequence * maxBlocks_] + maxBlocks_);
      const float* from = &q_[query.sequence][(query.context - query.count) * shape_.cols()];
      q.insert(q.end(), from, from + query.count * shape_.cols());
      most = std::max(most, query.count), maxContext = std::max(maxContext, query.context);
    }
    const int sequences = static_cast<int>(queries.size());
    const AttentionPlan plan = shape_.keysAreValues ? planLatent(shape_.group, shape_.headDim, most, sequences, limit)
                                                    : planAttention(shape_.group, shape_.headDim, most,
                                                                    sequences * attentionParts(shape_.kvHeads, shape_.headDim), 1, limit);
    std::vector<AttentionTile> tiles;
    eachTile(plan, starts.data(), sequences, [&](AttentionTile tile) { tiles.push_back(tile); });
    const int rows = starts.back();
    Halves out(size_t(rows) * shape_.cols());
    const bool isMixed = std::count(ahead.begin(), ahead.end(), 1) > 0;
    const int32_t* const bidirectional = isMixed ? ahead.data() : nullptr;
    const AttentionView view{starts.data(), contexts.data(), bidirectional, shape_.window, shape_.ownChunk, shape_.isBidirectional};
    Schedule schedule;
    if (blocks > 0) schedule = makeSchedule(tiles, view, attentionParts(shape_.kvHeads, shape_.headDim), blocks, mostStates);
    const Ints counts = {static_cast<int>(schedule.works.size()), static_cast<int>(schedule.cuts.size())};
    Floats partials(blocks > 0 ? size_t(schedule.states) * stateSize(plan, shape_.headDim)
                               : attentionPartialBytes(plan, rows, shape_.heads(), shape_.headDim, maxContext) / 4);
    Halves memory = memory_;
    AttentionParams p{};
    p.q = q.data(), p.qStride = shape_.cols();
    p.out = out.data(), p.outStride = shape_.cols();
    p.kv = kv(memory);
    p.tiles = tiles.data(), p.queryStarts = starts.data(), p.contextLengths = contexts.data(), p.blockTables = tables.data();
    p.bidirectional = bidirectional;
    p.sinks = shape_.hasSinks ? sinks_.data() : nullptr;
    p.partials = partials.empty() ? nullptr : partials.data();
    p.scale = scale(), p.softcap = shape_.softcap;
    p.heads = shape_.heads(), p.maxBlocks = maxBlocks_, p.numTokens = rows;
    p.numSequences = sequences;
    p.numTiles = static_cast<int>(tiles.size());
    p.maxChunks = ceilDiv(maxContext, kKvChunk);
    p.window = shape_.window, p.ownChunk = shape_.ownChunk, p.isBidirectional = shape_.isBidirectional;
    Later laterQ(q);
    Later laterKv(memory);
    auto write = [&] { laterQ(), laterKv(); };
    kernels_.after(write);
    if (blocks > 0) {
      p.schedule = {schedule.works.data(), schedule.cuts.data(), counts.data()};
      p.rowsPerBlock = plan.rows;
      kernels_.run(scheduledLaunch(p, plan, mostWorks(tiles.size(), attentionParts(shape_.kvHeads, shape_.headDim), blocks)), p);
      kernels_.run(mergeLaunch(blocks), p);
      return out;
    }
    if (shape_.keysAreValues) {
      const LatentAttentionParams latent = latentParams(p, plan, limit);
      kernels_.run(launchOf(latent, plan), latent);
    } else {
      kernels_.run(launchOf(p, plan), p);
    }
    if (p.partials != nullptr) {
      Later laterStates(partials);
      kernels_.after(laterStates);
      kernels_.run(combineLaunch(p), p);
    }
    return out;
  }

  /// @param seen so many tokens of the sequence are before the end of what sees them, if that sees ahead
  double expected(int sequence, int position, int head, int d, int seen = 0) const {
    const int kvHead = head / shape_.group, stride = shape_.kvHeads * shape_.headDim;
    const int behind = shape_.window > 0 ? shape_.window - 1 : lengths_[sequence];
    const int ofChunk = shape_.ownChunk > 0 ? position - position % shape_.ownChunk : 0;
    const int first = std::max(ofChunk, position - behind);
    const int end = shape_.isBidirectional ? lengths_[sequence] : seen;
    const int last = end > 0 ? std::min(end - 1, position + behind) : position;
    std::vector<double> scores;
    double largest = shape_.hasSinks ? sinks_[head] : -1e30, sum = 0, total = 0;
    for (int at = first; at <= last; ++at) {
      double score = 0;
      for (int i = 0; i < shape_.headDim; ++i)
        score += double{rounded(q_[sequence][position * shape_.cols() + head * shape_.headDim + i])} *
                 rounded(k_[sequence][at * stride + kvHead * shape_.headDim + i]);
      score *= scale();
      scores.push_back(shape_.softcap > 0 ? shape_.softcap * std::tanh(score / shape_.softcap) : score);
      largest = std::max(largest, scores.back());
    }
    if (shape_.hasSinks) total = std::exp(sinks_[head] - largest);
    for (int at = first; at <= last; ++at) {
      const double weight = std::exp(scores[at - first] - largest);
      total += weight;
      sum += weight * rounded(v_[sequence][at * stride + kvHead * shape_.headDim + d]);
    }
    return sum / total;
  }

 private:
  static float rounded(float value) { return fromHalf(toHalf(value)); }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(shape_.headDim)); }
  KvRow kv(Halves& memory) const {
    char* const second = reinterpret_cast<char*>(memory.data()) + shape_.blockBytes();
    return {second, shape_.rowBytes(), shape_.blockSize, shape_.kvHeads, shape_.headDim, shape_.keysAreValues, shape_.form};
  }

  void store(int sequence) {
    Ints slots;
    for (int i = 0; i < lengths_[sequence]; ++i)
      slots.push_back(tables_[sequence * maxBlocks_ + i / shape_.blockSize] * shape_.blockSize + i % shape_.blockSize);
    const int64_t stride = shape_.kvHeads * shape_.headDim;
    const StoreKvParams p{k_[sequence].data(), stride, v_[sequence].data(), stride, slots.data(), kv(memory_), lengths_[sequence]};
    kernels_.run(launchOf(p), p);
  }

  const Kernels& kernels_;
  const Shape shape_;
  const std::vector<int> lengths_;
  const Floats sinks_;
  int maxBlocks_;
  Ints tables_;
  Halves memory_;
  std::vector<Floats> q_, k_, v_;
};

std::string nameOf(const Shape& shape) {
  return "attention of " + std::to_string(shape.heads()) + " heads of " + std::to_string(shape.headDim) + ", window " +
         std::to_string(shape.window) + ", chunks of " + std::to_string(shape.ownChunk);
}

/// `length` tokens at once against the definition; then in chunks, one by one, and beside others, against that.
void check(const Kernels& kernels, const Shape& shape, int length) {
  const Sequences sequences(kernels, shape, {length, 21});
  const std::string what = nameOf(shape);
  const int cols = shape.cols();
  const bool isScheduled = !shape.keysAreValues && shape.form == KvForm::Half;
  const double tolerance = shape.form == KvForm::Half ? 0.01 : 0.1;
  const Halves all = sequences.attend({{0, length, length}});
  for (const int position : {0, 1, length / 2, length - 1}) {
    for (int i = 0; i < cols; i += 7)
      expectNear(fromHalf(all[position * cols + i]), sequences.expected(0, position, i / shape.headDim, i % shape.headDim), tolerance, what);
  }
  report("svcAttention", all);
  const auto expectPart = [&](const std::vector<Query>& queries, int at, int first, int count) {
    const Halves part = sequences.attend(queries);
    expectSame(&part[at * cols], &all[first * cols], size_t(count) * cols, what + ", tokens in another step");
  };
  if (shape.keysAreValues) {
    for (const uint32_t limit : kLimits) {
      const Halves last = sequences.attend({{0, length, 40}}, limit);
      expectSame(last.data(), &all[(length - 40) * cols], last.size(), what + ", other shared memory");
    }
  } else if (isScheduled) {
    for (const int blocks : {3, 50}) {
      const Halves scheduled = sequences.attend({{0, length, length}}, kLimits[0], blocks);
      expectSame(scheduled.data(), all.data(), all.size(), what + ", by a schedule for " + std::to_string(blocks) + " blocks");
    }
    const Halves uncut = sequences.attend({{0, length, length}}, kLimits[0], 50, 0);
    expectSame(uncut.data(), all.data(), all.size(), what + ", by a schedule without room for states");
  }
  if (shape.isBidirectional) return expectPart({{1, 21, 21}, {0, length, length}}, 21, 0, length);
  expectPart({{1, 20, 2}, {0, length, length - 37}}, 2, 37, length - 37);
  for (const int last : {0, 63, 64, length - 1}) expectPart({{0, last + 1, 1}}, 0, last, 1);
  expectPart({{1, 9, 1}, {0, length, 1}, {1, 21, 1}}, 1, length - 1, 1);
  // Too many to be split.
  std::vector<Query> many(12, {1, 9, 1});
  many.push_back({0, length, 1});
  expectPart(many, 12, length - 1, 1);
  if (!isScheduled) return;
  const Halves scheduled = sequences.attend({{1, 9, 1}, {0, length, 1}, {1, 21, 1}}, kLimits[0], 7);
  expectSame(&scheduled[cols], &all[(length - 1) * cols], cols, what + ", a last token by a schedule");
}

/// Some tokens in the middle of a sequence see each other, and no others do: by the definition, and with the same bits in another step.
void checkMixed(const Kernels& kernels, const Shape& shape, int begin, int end) {
  const int length = end + 40, cols = shape.cols();
  const Sequences sequences(kernels, shape, {length, 21});
  const std::string what = nameOf(shape) + ", of which some tokens see those after them";
  const std::vector<Query> step = {{0, begin, begin}, {0, end, end - begin, true}, {0, length, length - end}, {1, 21, 3}};
  const Halves all = sequences.attend(step);
  for (int position = 0; position < length; position += 7) {
    const int seen = position >= begin && position < end ? end : 0;
    for (int i = 0; i < cols; i += 7)
      expectNear(fromHalf(all[position * cols + i]), sequences.expected(0, position, i / shape.headDim, i % shape.headDim, seen), 0.01, what);
  }
  if (!shape.keysAreValues) {
    const Halves scheduled = sequences.attend(step, kLimits[0], 7);
    expectSame(scheduled.data(), all.data(), all.size(), what + ", by a schedule");
  }
  const int last = (end - begin) / 3;
  const Halves rest = sequences.attend({{1, 9, 1}, {0, end, last, true}});
  expectSame(&rest[cols], &all[(end - last) * cols], size_t(last) * cols, what + ", the last of them");
  const Halves causal = sequences.attend({{0, length, length}});
  expectSame(&causal[end * cols], &all[end * cols], size_t(length - end) * cols, what + ", the others");
  expect(!std::equal(&causal[begin * cols], &causal[(begin + 1) * cols], &all[begin * cols]), what + ": they see nothing more");
}

/// Blocks and launches of a decode step on an H100, of sequences of 8 KV heads of 128 numbers and up to 2,048 tokens.
struct Work {
  int blocks, launches;
};
Work workOf(int sequences) {
  AttentionParams p{};
  p.kv.headDim = 128, p.kv.kvHeads = 8, p.heads = 32, p.kv.form = KvForm::Half;
  p.numTokens = p.numSequences = p.numTiles = sequences;
  p.maxChunks = 8;
  const AttentionPlan plan = planAttention(4, 128, 1, sequences * 8, 132, kLimits[2]);
  const bool isSplit = attentionPartialBytes(plan, sequences, 32, 128, 2048) > 0;
  float state;
  p.partials = isSplit ? &state : nullptr;
  const Launch launch = launchOf(p, plan);
  return {static_cast<int>(launch.grid[0] * launch.grid[1] * launch.grid[2]), isSplit ? 2 : 1};
}

/// Chunks are blocks of their own only while sequences are few, and are then combined.
void checkWork() {
  const auto expectWork = [](int sequences, int blocks, int launches) {
    const Work work = workOf(sequences);
    expect(work.blocks == blocks && work.launches == launches, "attention of " + std::to_string(sequences) + " sequences has other blocks");
  };
  expectWork(64, 4096, 2);
  expectWork(197, 12608, 2);
  expectWork(198, 1584, 1);
  expectWork(256, 2048, 1);
}

/// Several tokens of a sequence, and its last one, which is cut into chunks.
void reportTokens(const Kernels& kernels, const Shape& shape, int length) {
  const Sequences sequences(kernels, shape, {length});
  report("many", sequences.attend({{0, length, 20}}));
  report("one", sequences.attend({{0, length, 1}}));
}

}  // namespace

void reportAttention(const Kernels& kernels) {
  reportTokens(kernels, {64, 1, 4, 16, 0, 0, false, false, false}, 262);
  reportTokens(kernels, {512, 1, 4, 16, 0, 0, false, false, false}, 262);
}

void checkAttention(const Kernels& kernels) {
  checkWork();
  check(kernels, {16, 2, 2, 16, 0, 0, false, false, false}, 300);
  check(kernels, {64, 1, 8, 32, 100, 0, true, false, false}, 262);
  check(kernels, {80, 2, 1, 16, 0, 30, false, false, false}, 130);
  check(kernels, {256, 1, 3, 16, 70, 0, false, false, false}, 100);
  check(kernels, {512, 1, 8, 16, 70, 0, true, false, false}, 262);
  check(kernels, {264, 2, 3, 16, 0, 30, false, false, false}, 70);
  check(kernels, {32, 1, 20, 16, 0, 0, true, false, false}, 70);
  check(kernels, {64, 2, 1, 16, 0, 0, false, true, false}, 90);
  check(kernels, {64, 2, 1, 16, 40, 0, false, true, false}, 150);
  check(kernels, {128, 1, 5, 16, 0, 0, false, false, false, KvForm::Half, 50}, 300);
  check(kernels, {64, 2, 2, 32, 40, 0, true, false, false, KvForm::Half, 256}, 300);
  checkMixed(kernels, {64, 2, 2, 16, 0, 0, false, false, false}, 50, 320);
  checkMixed(kernels, {256, 1, 2, 16, 100, 0, false, false, false}, 200, 290);
  checkMixed(kernels, {512, 1, 2, 16, 60, 0, true, false, false}, 30, 80);
  checkMixed(kernels, {40, 1, 5, 16, 64, 0, false, false, true}, 30, 80);
  check(kernels, {40, 1, 5, 16, 0, 0, false, false, true}, 262);
  check(kernels, {576, 1, 17, 16, 40, 0, true, false, true}, 66);
  check(kernels, {80, 2, 2, 16, 0, 0, false, false, false, KvForm::Fp8}, 130);
  check(kernels, {128, 1, 3, 16, 70, 0, false, false, false, KvForm::Int8}, 130);
  check(kernels, {512, 1, 3, 16, 0, 0, false, false, false, KvForm::Fp8}, 130);
  check(kernels, {512, 1, 2, 16, 70, 0, false, false, false, KvForm::Int8}, 130);
}

}  // namespace svc::cuda
