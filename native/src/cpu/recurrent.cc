#include "cpu/recurrent.h"

#include <algorithm>
#include <cstring>

#include "cpu/each_row.h"

namespace svc::cpu {
namespace {

/// Channels that a thread convolves at once: so many numbers of each tap are in its cache.
constexpr int64_t kTaskChannels = 512;

const HostKvCache& cacheOf(const StepInputs& step) { return static_cast<const HostKvCache&>(*step.cache); }

const std::vector<float>& valuesOf(const Vector& vector) { return static_cast<const HostVector&>(vector).values; }

float* rowOf(const Rows& tensor, int64_t row) { return reinterpret_cast<float*>(tensor.data) + row * tensor.stride; }

/// Some channels of the rows of one sequence. What the state has is [taps - 1, channels].
struct ConvolvedPart {
  const StepInputs& step;
  const Convolution& how;
  Rows x;
  int64_t channels;
  int sequence;
  int64_t begin, end;

  int before() const { return how.taps - 1; }
  int firstRow() const { return step.queryStarts[sequence]; }
  int rows() const { return step.queryStarts[sequence + 1] - firstRow(); }

  float* state() const {
    const int slot = step.stateSlots[sequence];
    return slot < 0 ? nullptr : cacheOf(step).state(how.place, slot) + begin;
  }

  /// The inputs of row `row` of the sequence; of one before the first, those that the state remembers or `zeros`.
  const float* inputs(int row, const float* zeros) const {
    if (row >= 0) return rowOf(x, firstRow() + row) + begin;
    return step.begins(sequence) ? zeros : state() + (row + before()) * channels;
  }

  /// Once all rows have been read.
  void remember(const float* zeros) const {
    if (state() == nullptr) return;
    // Upwards: a row of the state is read before it is written.
    for (int i = 0; i < before(); ++i) {
      std::memmove(state() + i * channels, inputs(rows() - before() + i, zeros), (end - begin) * sizeof(float));
    }
  }
};

void convolvePart(const KernelSet& set, const ConvolvedPart& part, Rows out) {
  const Convolution& how = part.how;
  const std::vector<float> zeros(part.end - part.begin);
  const float* weight = valuesOf(*how.weight).data() + part.begin;
  const float* bias = how.bias == nullptr ? zeros.data() : valuesOf(*how.bias).data() + part.begin;
  std::vector<const float*> taps(how.taps);
  for (int row = 0; row < part.rows(); ++row) {
    for (int tap = 0; tap < how.taps; ++tap) taps[tap] = part.inputs(row - part.before() + tap, zeros.data());
    float* const to = rowOf(out, part.firstRow() + row) + part.begin;
    set.convolve(taps.data(), how.taps, weight, part.channels, bias, static_cast<int>(part.end - part.begin), how.isSilu, to);
  }
  part.remember(zeros.data());
}

/// Panels of columns of the state of one head of one sequence.
struct DeltaTask {
  int sequence;
  int head;
  int firstPanel, endPanel;
};

/// Whole heads, and single panels of those that have much to do.
std::vector<DeltaTask> deltaTasks(const StepInputs& step, const DeltaRule& rule) {
  const int panels = (rule.valueDim + kStateColumns - 1) / kStateColumns;
  std::vector<DeltaTask> tasks;
  for (int sequence = 0; sequence < step.sequences(); ++sequence) {
    const int64_t rows = step.queryStarts[sequence + 1] - step.queryStarts[sequence];
    const int each = rows * rule.keyDim * rule.valueDim > 2 * kTaskNumbers ? 1 : panels;
    for (int head = 0; head < rule.heads; ++head) {
      for (int panel = 0; panel < panels; panel += each) tasks.push_back({sequence, head, panel, panel + each});
    }
  }
  return tasks;
}

}  // namespace

void runConvolve(ThreadPool& pool, const KernelSet& set, const StepInputs& step, const Convolution& how, Rows x,
                 int64_t channels, Rows out) {
  const auto parts = static_cast<int>((channels + kTaskChannels - 1) / kTaskChannels);
  pool.run(step.sequences() * parts, [&](int task, int) {
    const int64_t begin = task % parts * kTaskChannels;
    convolvePart(set, {step, how, x, channels, task / parts, begin, std::min(begin + kTaskChannels, channels)}, out);
  });
}

void runGatedDelta(ThreadPool& pool, const KernelSet& set, DeltaMemory& memory, const StepInputs& step, const DeltaRule& rule,
                   const DeltaTokens& tokens, Rows out) {
  const int64_t heads = rule.heads, rows = tokens.q.rows;
  memory.decays.resize(std::max<size_t>(memory.decays.size(), rows * heads));
  memory.shares.resize(memory.decays.size());
  eachRow(pool, rows, heads, [&](int64_t row) {
    set.deltaGates(rowOf(tokens.forgetting, row), rowOf(tokens.writing, row), valuesOf(*rule.rates).data(),
                   valuesOf(*rule.rateBias).data(), rule.heads, &memory.decays[row * heads], &memory.shares[row * heads]);
  });

  const int64_t panelNumbers = int64_t{rule.keyDim} * kStateColumns;
  const int64_t headNumbers = panelNumbers * ((rule.valueDim + kStateColumns - 1) / kStateColumns);
  memory.unkept.resize(pool.threads() * panelNumbers);
  const std::vector<DeltaTask> tasks = deltaTasks(step, rule);
  pool.run(static_cast<int>(tasks.size()), [&](int index, int thread) {
    const auto [sequence, head, firstPanel, endPanel] = tasks[index];
    const int slot = step.stateSlots[sequence];
    const int64_t keyColumn = int64_t{head} * rule.keyHeads / heads * rule.keyDim;
    for (int panel = firstPanel; panel < endPanel; ++panel) {
      float* const state = slot < 0 ? &memory.unkept[thread * panelNumbers]
                                    : cacheOf(step).state(rule.place, slot) + head * headNumbers + panel * panelNumbers;
      if (slot < 0 || step.begins(sequence)) std::fill_n(state, panelNumbers, 0.0f);
      const int64_t column = int64_t{head} * rule.valueDim + panel * kStateColumns;
      const int columns = std::min(kStateColumns, rule.valueDim - panel * kStateColumns);
      for (int64_t row = step.queryStarts[sequence]; row < step.queryStarts[sequence + 1]; ++row) {
        set.deltaStep(state, rowOf(tokens.q, row) + keyColumn, rowOf(tokens.k, row) + keyColumn, rule.keyDim,
                      rowOf(tokens.v, row) + column, columns, memory.decays[row * heads + head],
                      memory.shares[row * heads + head], rowOf(out, row) + column);
      }
    }
  });
}

}  // namespace svc::cpu
