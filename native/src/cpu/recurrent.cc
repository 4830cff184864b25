#include "cpu/recurrent.h"

#include <algorithm>
#include <cstring>

#include "backend/state_moves.h"
#include "cpu/each_row.h"

namespace svc::cpu {
namespace {

/// Channels that a thread convolves at once: so many numbers of each tap are in its cache.
constexpr int64_t kTaskChannels = 512;
/// Of heads, where there is much to do.
constexpr int kTasksPerThread = 4;
/// Tokens that the panels of a head take one panel after the other: what writes and reads them stays in the cache, and a panel is
/// brought there once for so many.
constexpr int kTokensAtOnce = 16;

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

/// States [rows, columns] of heads, of which each shares what writes and reads them with its neighbours.
struct HeadStates {
  StatePlace place;
  int sharers, rows, heads, columns;
  /// Whether those that share take turns; else they are neighbours.
  bool isTiled = false;

  int panels() const { return (columns + kStateColumns - 1) / kStateColumns; }
  int64_t panelNumbers() const { return int64_t{rows} * kStateColumns; }
};

/// Columns of the state of one head of one sequence.
struct StatePanel {
  const HeadStates& states;
  int sequence, head, panel;

  /// Null where there is no slot.
  float* in(const StepInputs& step, int slot) const {
    if (slot < 0) return nullptr;
    return cacheOf(step).state(states.place, slot) + (int64_t{head} * states.panels() + panel) * states.panelNumbers();
  }
  /// The first number of the head's, and of the panel's, among those of all heads.
  int64_t sharedColumn() const {
    return int64_t{states.isTiled ? head % states.sharers : head / (states.heads / states.sharers)} * states.rows;
  }
  int64_t column() const { return int64_t{head} * states.columns + panel * kStateColumns; }
  int columns() const { return std::min(kStateColumns, states.columns - panel * kStateColumns); }
};

/// Panels of one head of one sequence.
struct HeadTask {
  int sequence;
  int head;
  int firstPanel, endPanel;
};

/// Whole heads, and less of those that have much to do where there would be few tasks for as many threads.
std::vector<HeadTask> headTasks(const StepInputs& step, const HeadStates& states, int threads) {
  const int panels = states.panels();
  std::vector<HeadTask> tasks;
  for (int sequence = 0; sequence < step.sequences(); ++sequence) {
    const bool isLarge = int64_t{step.rowsOf(sequence)} * states.rows * states.columns > 2 * kTaskNumbers;
    const int each = isLarge ? std::clamp(states.heads * panels / (kTasksPerThread * threads), 1, panels) : panels;
    for (int head = 0; head < states.heads; ++head) {
      for (int panel = 0; panel < panels; panel += each) {
        tasks.push_back({sequence, head, panel, std::min(panel + each, panels)});
      }
    }
  }
  return tasks;
}

/// Before the first token of a task's panels: the state that they go on from, or zeros.
void beginPanel(const StepInputs& step, const StatePanel& panel, float* state) {
  const int64_t numbers = panel.states.panelNumbers();
  const float* const source = panel.in(step, step.stateSources[panel.sequence]);
  if (source == nullptr) std::fill_n(state, numbers, 0.0f);
  else if (source != state) std::copy_n(source, numbers, state);
}

/// Where tokens from `done` on are cut: where the step says that the state is kept, and so that panels share what is in the cache.
int endOfTokens(const StepInputs& step, int sequence, int done) {
  int end = std::min(step.rowsOf(sequence), done + kTokensAtOnce);
  for (const StateSave& save : step.stateSaves) {
    if (save.sequence == sequence && save.tokens > done) end = std::min(end, save.tokens);
  }
  return end;
}

/// advance(panel, first row, rows, state) of the tokens, one after the other. `unkept` has room for the task's panels.
template <class Advance>
void runTask(const StepInputs& step, const HeadStates& states, const HeadTask& task, float* unkept, const Advance& advance) {
  const int sequence = task.sequence, firstRow = step.queryStarts[sequence], rows = step.rowsOf(sequence);
  const int64_t numbers = states.panelNumbers();
  const auto eachPanel = [&](const auto& use) {
    for (int index = task.firstPanel; index < task.endPanel; ++index) {
      const StatePanel panel{states, sequence, task.head, index};
      float* const kept = panel.in(step, step.stateSlots[sequence]);
      use(panel, kept == nullptr ? unkept + (index - task.firstPanel) * numbers : kept);
    }
  };
  eachPanel([&](const StatePanel& panel, float* state) { beginPanel(step, panel, state); });
  for (int done = 0; done < rows;) {
    const int end = endOfTokens(step, sequence, done);
    eachPanel([&](const StatePanel& panel, float* state) { advance(panel, firstRow + done, end - done, state); });
    done = end;
    for (const StateSave& save : step.stateSaves) {
      if (save.sequence != sequence || save.tokens != done) continue;
      eachPanel([&](const StatePanel& panel, float* state) { std::copy_n(state, numbers, panel.in(step, save.slot)); });
    }
  }
}

template <class Advance>
void runHeads(ThreadPool& pool, StateMemory& memory, const StepInputs& step, const HeadStates& states, const Advance& advance) {
  const int64_t numbers = states.panelNumbers() * states.panels();
  memory.unkept.resize(pool.threads() * numbers);
  const std::vector<HeadTask> tasks = headTasks(step, states, pool.threads());
  pool.run(static_cast<int>(tasks.size()), [&](int index, int thread) {
    runTask(step, states, tasks[index], &memory.unkept[thread * numbers], advance);
  });
}

/// What writes states, what reads them, what is written, and what is read.
struct StateRows {
  Rows write, read, values, out;
};

/// `count` tokens from row `row` on, for a panel.
StateTokens tokensOf(const StateMemory& memory, const StatePanel& panel, const StateRows& rows, int64_t row, int count) {
  const auto stride = [](const Rows& tensor) { return static_cast<size_t>(tensor.stride); };
  const int heads = panel.states.heads;
  const size_t gate = row * heads + panel.head;
  return {rowOf(rows.write, row) + panel.sharedColumn(), stride(rows.write),
          rowOf(rows.read, row) + panel.sharedColumn(),  stride(rows.read),
          rowOf(rows.values, row) + panel.column(),      stride(rows.values),
          rowOf(rows.out, row) + panel.column(),         stride(rows.out),
          &memory.decays[gate],                          &memory.shares[gate],
          static_cast<size_t>(heads),                    panel.states.rows,
          panel.columns(),                               count};
}

/// Room for what each head of each token keeps and takes.
void growGates(StateMemory& memory, int64_t count) {
  memory.decays.resize(std::max<size_t>(memory.decays.size(), count));
  memory.shares.resize(memory.decays.size());
}

}  // namespace

void runMoveStates(ThreadPool& pool, const StepInputs& step) {
  const HostKvCache& cache = cacheOf(step);
  const int layers = cache.shape.states.layers;
  pool.run(static_cast<int>(step.stateMoves.size()) * layers, [&](int task, int) {
    const StateMove& move = step.stateMoves[task / layers];
    eachSpanOfState(cache, move, task % layers, [&](size_t inStates, size_t inBlocks, size_t bytes) {
      char* const state = cache.states.data() + inStates;
      char* const block = cache.data + inBlocks;
      if (move.isLeaving) std::memcpy(block, state, bytes);
      else std::memcpy(state, block, bytes);
    });
  });
}

void runConvolve(ThreadPool& pool, const KernelSet& set, const StepInputs& step, const Convolution& how, Rows x,
                 int64_t channels, Rows out) {
  const auto parts = static_cast<int>((channels + kTaskChannels - 1) / kTaskChannels);
  pool.run(step.sequences() * parts, [&](int task, int) {
    const int64_t begin = task % parts * kTaskChannels;
    convolvePart(set, {step, how, x, channels, task / parts, begin, std::min(begin + kTaskChannels, channels)}, out);
  });
}

void runGatedDelta(ThreadPool& pool, const KernelSet& set, StateMemory& memory, const StepInputs& step, const DeltaRule& rule,
                   const DeltaTokens& tokens, Rows out) {
  const int64_t heads = rule.heads, rows = tokens.q.rows;
  growGates(memory, rows * heads);
  eachRow(pool, rows, heads, [&](int64_t row) {
    set.deltaGates(rowOf(tokens.forgetting, row), rowOf(tokens.writing, row), valuesOf(*rule.rates).data(),
                   valuesOf(*rule.rateBias).data(), rule.heads, &memory.decays[row * heads], &memory.shares[row * heads]);
  });
  const HeadStates states{rule.place, rule.keyHeads, rule.keyDim, rule.heads, rule.valueDim, rule.isTiled};
  runHeads(pool, memory, step, states, [&](const StatePanel& panel, int64_t row, int count, float* state) {
    set.deltaTokens(state, tokensOf(memory, panel, {tokens.k, tokens.q, tokens.v, out}, row, count));
  });
}

void runSelectiveScan(ThreadPool& pool, const KernelSet& set, StateMemory& memory, const StepInputs& step,
                      const SelectiveScan& scan, const ScanTokens& tokens, Rows out) {
  const int64_t heads = scan.heads, rows = tokens.x.rows;
  growGates(memory, rows * heads);
  eachRow(pool, rows, heads, [&](int64_t row) {
    set.scanTimes(rowOf(tokens.steps, row), valuesOf(*scan.rates).data(), valuesOf(*scan.stepBias).data(), scan.heads,
                  &memory.decays[row * heads], &memory.shares[row * heads]);
  });
  const float* const skips = valuesOf(*scan.skips).data();
  const HeadStates states{scan.place, scan.groups, scan.stateDim, scan.heads, scan.headDim};
  runHeads(pool, memory, step, states, [&](const StatePanel& panel, int64_t row, int count, float* state) {
    set.scanTokens(state, tokensOf(memory, panel, {tokens.b, tokens.c, tokens.x, out}, row, count), skips[panel.head]);
  });
}

}  // namespace svc::cpu
