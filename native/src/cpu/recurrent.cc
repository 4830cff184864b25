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
  int rows() const { return step.rowsOf(sequence); }

  /// Null where there is none.
  float* state(int slot) const { return slot < 0 ? nullptr : cacheOf(step).state(how.place, slot) + begin; }

  /// The inputs of row `row` of the sequence; of one before the first, those that its state remembers, or `zeros`.
  const float* inputs(int row, const float* zeros) const {
    if (row >= 0) return rowOf(x, firstRow() + row) + begin;
    const float* const source = state(step.stateSources[sequence]);
    return source == nullptr ? zeros : source + (row + before()) * channels;
  }

  /// What the state is before row `row`. Upwards: where it is its own source, rows of it are read before they are written.
  void remember(int row, const float* zeros, float* into) const {
    if (into == nullptr) return;
    for (int i = 0; i < before(); ++i) {
      std::memmove(into + i * channels, inputs(row - before() + i, zeros), (end - begin) * sizeof(float));
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
  for (const StateSave& save : part.step.stateSaves) {
    if (save.sequence == part.sequence) part.remember(save.tokens, zeros.data(), part.state(save.slot));
  }
  part.remember(part.rows(), zeros.data(), part.state(part.step.stateSlots[part.sequence]));
}

int64_t panelNumbers(const DeltaRule& rule) { return int64_t{rule.keyDim} * kStateColumns; }

int panelsOf(const DeltaRule& rule) { return (rule.valueDim + kStateColumns - 1) / kStateColumns; }

/// Columns of the state of one head of one sequence.
struct DeltaPanel {
  int sequence, head, panel;

  /// Null where there is no slot.
  float* state(const StepInputs& step, const DeltaRule& rule, int slot) const {
    if (slot < 0) return nullptr;
    return cacheOf(step).state(rule.place, slot) + (int64_t{head} * panelsOf(rule) + panel) * panelNumbers(rule);
  }
};

/// Panels of one head of one sequence.
struct DeltaTask {
  int sequence;
  int head;
  int firstPanel, endPanel;
};

/// Whole heads, and single panels of those that have much to do.
std::vector<DeltaTask> deltaTasks(const StepInputs& step, const DeltaRule& rule) {
  const int panels = panelsOf(rule);
  std::vector<DeltaTask> tasks;
  for (int sequence = 0; sequence < step.sequences(); ++sequence) {
    const int each = int64_t{step.rowsOf(sequence)} * rule.keyDim * rule.valueDim > 2 * kTaskNumbers ? 1 : panels;
    for (int head = 0; head < rule.heads; ++head) {
      for (int panel = 0; panel < panels; panel += each) tasks.push_back({sequence, head, panel, panel + each});
    }
  }
  return tasks;
}

/// @param unkept where a state is computed that is not kept
void runPanel(const KernelSet& set, const DeltaMemory& memory, const StepInputs& step, const DeltaRule& rule,
              const DeltaTokens& tokens, const DeltaPanel& panel, float* unkept, Rows out) {
  const int64_t numbers = panelNumbers(rule);
  const float* const source = panel.state(step, rule, step.stateSources[panel.sequence]);
  float* const kept = panel.state(step, rule, step.stateSlots[panel.sequence]);
  float* const state = kept == nullptr ? unkept : kept;
  if (source == nullptr) std::fill_n(state, numbers, 0.0f);
  else if (source != state) std::copy_n(source, numbers, state);

  const int64_t keyColumn = int64_t{panel.head} * rule.keyHeads / rule.heads * rule.keyDim;
  const int64_t column = int64_t{panel.head} * rule.valueDim + panel.panel * kStateColumns;
  const int columns = std::min(kStateColumns, rule.valueDim - panel.panel * kStateColumns);
  const int firstRow = step.queryStarts[panel.sequence];
  for (int64_t row = firstRow; row < firstRow + step.rowsOf(panel.sequence); ++row) {
    const int64_t gate = row * rule.heads + panel.head;
    set.deltaStep(state, rowOf(tokens.q, row) + keyColumn, rowOf(tokens.k, row) + keyColumn, rule.keyDim,
                  rowOf(tokens.v, row) + column, columns, memory.decays[gate], memory.shares[gate], rowOf(out, row) + column);
    for (const StateSave& save : step.stateSaves) {
      const bool isHere = save.sequence == panel.sequence && firstRow + save.tokens == row + 1;
      if (isHere) std::copy_n(state, numbers, panel.state(step, rule, save.slot));
    }
  }
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

  memory.unkept.resize(pool.threads() * panelNumbers(rule));
  const std::vector<DeltaTask> tasks = deltaTasks(step, rule);
  pool.run(static_cast<int>(tasks.size()), [&](int index, int thread) {
    const DeltaTask& task = tasks[index];
    for (int panel = task.firstPanel; panel < task.endPanel; ++panel) {
      runPanel(set, memory, step, rule, tokens, {task.sequence, task.head, panel}, &memory.unkept[thread * panelNumbers(rule)], out);
    }
  });
}

}  // namespace svc::cpu
