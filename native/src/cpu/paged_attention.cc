// A task is one KV head of one sequence, or for few query tokens several whose keys are side by side: memory is read faster
// in long pieces. It reads its context in partitions of fixed position and merges their states in order, whether one thread
// computes all of them or several share them: the bits are the same.

#include "cpu/paged_attention.h"

#include <algorithm>
#include <cstring>

namespace svc::cpu {
namespace {

struct PlannedTask {
  AttentionTask task;  // of the first of its heads
  Range tokens;        // visible to any of its rows
  int64_t firstPartial;  // index of the state of its first head and partition, if threads share the partitions

  int heads() const { return task.headsTogether.end - task.headsTogether.begin; }
  AttentionTask taskOf(int head) const {
    AttentionTask one = task;
    one.kvHead += head;
    return one;
  }
  int64_t partialOf(int head, int partition) const { return firstPartial + int64_t{head} * partitions() + partition; }
  int firstPartition() const { return tokens.begin / kKvPartition; }
  int partitions() const { return (tokens.end - 1) / kKvPartition - firstPartition() + 1; }
  Range partition(int index) const {
    const int start = (firstPartition() + index) * kKvPartition;
    return {std::max(start, tokens.begin), std::min(start + kKvPartition, tokens.end)};
  }
};

/// Gives out consecutive parts of memory, each aligned to a cache line; without memory it only counts.
class Carver {
 public:
  explicit Carver(char* memory) : memory_(memory) {}
  template <class T>
  T* take(size_t count) {
    const size_t at = used_;
    used_ += static_cast<size_t>(roundUp(static_cast<int64_t>(count * sizeof(T)), 64));
    return memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + at);
  }
  size_t used() const { return used_; }

 private:
  char* memory_;
  size_t used_ = 0;
};

AttentionState carveState(Carver& memory, int rows, int valueDims) {
  return {memory.take<float>(rows), memory.take<float>(static_cast<size_t>(rows) * kLanes),
          memory.take<float>(static_cast<size_t>(rows) * valueDims)};
}

/// What a thread needs for one head of a task; queries and `merged` are the head's own.
struct ThreadMemory {
  AttentionScratch scratch;
  AttentionState partial;
  AttentionState merged;
};

ThreadMemory carveThread(Carver& memory, const AttentionKernels& kernels, const KvLayout& kv, int rows, int head) {
  ThreadMemory thread{};
  thread.scratch.memory = memory.take<char>(kernels.scratchBytes(kv));
  thread.partial = carveState(memory, rows, kv.valueDims);
  for (int i = 0; i <= head; ++i) {
    thread.scratch.queries = memory.take<uint32_t>(static_cast<size_t>(rows) * roundUp(kv.keySteps, kQueryWords));
    thread.merged = carveState(memory, rows, kv.valueDims);
  }
  return thread;
}

void ensure(Pages& pages, size_t bytes) {
  if (pages.size() < bytes) pages = Pages(bytes);
}

/// How many query tokens and KV heads a task has; tasks of more than `fewTokens` tokens have one head.
struct TaskSize {
  int tokens;
  int fewTokens;
  int heads;
};

TaskSize taskSize(const AttentionKernels& kernels, const AttentionJob& job) {
  const int group = job.heads / job.kvHeads;
  const size_t heads = (kernels.bytesTogether + job.kv.keyHeadBytes - 1) / job.kv.keyHeadBytes;
  return {std::max(1, kernels.taskRows / group), kQueryRows / group, std::clamp(static_cast<int>(heads), 1, job.kvHeads)};
}

/// The newest token that a row sees is so many behind the row itself.
struct RowSight {
  Sight sight;
  int ahead;
};

int orNoWindow(int64_t tokens) { return tokens == 0 || tokens >= kNoWindow / 2 ? kNoWindow : static_cast<int>(tokens); }

bool seesAhead(const StepInputs& step, Ahead ahead, int sequence) {
  if (ahead != Ahead::ByStep) return ahead == Ahead::All;
  return !step.bidirectional.empty() && step.bidirectional[sequence] != 0;
}

RowSight sightOf(const AttentionOptions& options, bool isBidirectional) {
  const int window = orNoWindow(options.window), chunk = orNoWindow(options.chunk);
  if (!isBidirectional) return {{window, chunk}, 0};
  return window == kNoWindow ? RowSight{{window, chunk}, kNoWindow} : RowSight{{2 * window - 1, chunk}, window - 1};
}

std::vector<PlannedTask> plan(const StepInputs& step, int layerGroup, int kvHeads, TaskSize size, const AttentionOptions& options) {
  std::vector<PlannedTask> tasks;
  int64_t partials = 0;
  for (int sequence = 0; sequence < step.sequences(); ++sequence) {
    const int begin = step.queryStarts[sequence], end = step.queryStarts[sequence + 1];
    const int context = step.contextLengths[sequence];
    const auto [sight, ahead] = sightOf(options, seesAhead(step, options.ahead, sequence));
    for (int row = begin; row < end; row += size.tokens) {
      const int tokens = std::min(size.tokens, end - row);
      const int positionStep = ahead == kNoWindow ? 0 : 1;
      const int position = positionStep == 0 ? context - 1 : context - (end - row) + ahead;
      const int oldest = sight.oldest(position);
      const int newest = std::min(position + (tokens - 1) * positionStep, context - 1);
      const Range visible{oldest / kLanes * kLanes, newest + 1};
      const int together = tokens <= size.fewTokens ? size.heads : 1;
      for (int head = 0; head < kvHeads; head += together) {
        const int32_t* table = step.tableOf(layerGroup, sequence);
        const Range heads{head, std::min(head + together, kvHeads)};
        PlannedTask planned{{table, context, head, heads, row, tokens, position, positionStep, sight, visible.end}, visible, partials};
        partials += int64_t{planned.heads()} * planned.partitions();
        tasks.push_back(planned);
      }
    }
  }
  return tasks;
}

int64_t workOf(const PlannedTask& planned) {
  return int64_t{planned.heads()} * planned.task.tokens * (planned.tokens.end - planned.tokens.begin);
}

/// One attention call: the state that its tasks share.
class Attention {
 public:
  Attention(ThreadPool& pool, const KernelSet& set, const AttentionKernels& kernels, AttentionMemory& memory,
            const AttentionJob& job, TaskSize size)
      : pool_(pool), set_(set), kernels_(kernels), memory_(memory), job_(job),
        rows_(static_cast<int>(roundUp(size.tokens * (job.heads / job.kvHeads), kQueryRows))) {
    Carver counted(nullptr);
    carveThread(counted, kernels_, job.kv, rows_, size.heads - 1);
    memory_.scratch.resize(pool.threads());
    for (Pages& pages : memory_.scratch) ensure(pages, counted.used());
  }

  /// Runs each task on one thread, the longest first.
  void runWhole(std::vector<PlannedTask>& tasks) {
    std::stable_sort(tasks.begin(), tasks.end(),
                     [](const PlannedTask& a, const PlannedTask& b) { return workOf(a) > workOf(b); });
    pool_.run(static_cast<int>(tasks.size()), [&](int index, int thread) {
      const PlannedTask& planned = tasks[index];
      for (int p = 0; p < planned.partitions(); ++p) {
        for (int head = 0; head < planned.heads(); ++head) attendPartition(planned, head, p, threadMemory(thread, head));
      }
      for (int head = 0; head < planned.heads(); ++head) {
        kernels_.finish(job_, planned.taskOf(head), threadMemory(thread, head).merged);
      }
    });
  }

  /// Runs each partition by itself; then one thread a task merges the states in order.
  void runPartitioned(const std::vector<PlannedTask>& tasks) {
    std::vector<std::pair<int, int>> shares;  // task, partition
    for (size_t task = 0; task < tasks.size(); ++task) {
      for (int p = 0; p < tasks[task].partitions(); ++p) shares.emplace_back(task, p);
    }
    Carver size(nullptr);
    carveState(size, rows_, job_.kv.valueDims);
    const int64_t states = tasks.back().partialOf(tasks.back().heads(), 0);
    ensure(memory_.partials, size.used() * states);
    const auto partial = [&](int64_t index) {
      Carver carver(memory_.partials.data() + size.used() * index);
      return carveState(carver, rows_, job_.kv.valueDims);
    };
    pool_.run(static_cast<int>(shares.size()), [&](int index, int thread) {
      const PlannedTask& planned = tasks[shares[index].first];
      const int p = shares[index].second;
      for (int head = 0; head < planned.heads(); ++head) {
        const AttentionScratch scratch = threadMemory(thread, head).scratch;
        AttentionTask alone = planned.taskOf(head);
        alone.fetchEnd = planned.partition(p).end;
        kernels_.loadQueries(job_, alone, scratch.queries);
        kernels_.attend(job_, alone, planned.partition(p), scratch, partial(planned.partialOf(head, p)));
      }
    });
    pool_.run(static_cast<int>(tasks.size()), [&](int index, int) {
      const PlannedTask& planned = tasks[index];
      for (int head = 0; head < planned.heads(); ++head) {
        const AttentionState merged = partial(planned.partialOf(head, 0));
        for (int p = 1; p < planned.partitions(); ++p) merge(planned, merged, partial(planned.partialOf(head, p)));
        kernels_.finish(job_, planned.taskOf(head), merged);
      }
    });
  }

 private:
  ThreadMemory threadMemory(int thread, int head) const {
    Carver carver(memory_.scratch[thread].data());
    return carveThread(carver, kernels_, job_.kv, rows_, head);
  }

  /// Adds partition `p` to the head's merged state.
  void attendPartition(const PlannedTask& planned, int head, int p, const ThreadMemory& memory) const {
    const AttentionTask task = planned.taskOf(head);
    if (p == 0) kernels_.loadQueries(job_, task, memory.scratch.queries);
    kernels_.attend(job_, task, planned.partition(p), memory.scratch, p == 0 ? memory.merged : memory.partial);
    if (p > 0) merge(planned, memory.merged, memory.partial);
  }

  void merge(const PlannedTask& planned, const AttentionState& into, const AttentionState& from) const {
    set_.mergeStates(planned.task.tokens * (job_.heads / job_.kvHeads), job_.kv.valueDims, into, from);
  }

  ThreadPool& pool_;
  const KernelSet& set_;
  const AttentionKernels& kernels_;
  AttentionMemory& memory_;
  const AttentionJob& job_;
  int rows_;
};

/// The columns between the last head and the end of a padded bf16 row.
void clearPadding(DType dtype, int64_t cols, Rows out) {
  const int64_t padded = paddedCols(dtype, cols);
  if (padded == cols) return;
  for (int64_t row = 0; row < out.rows; ++row) {
    std::memset(out.data + (row * out.stride + cols) * 2, 0, static_cast<size_t>(padded - cols) * 2);
  }
}

const AttentionKernels& kernelsFor(const KernelSet& set, DType dtype, float softcap) {
  if (dtype == DType::Bf16 && softcap != 0.0f) return set.cappedAttention;
  return set.attention[static_cast<int>(dtype)];
}

}  // namespace

void runAttention(ThreadPool& pool, const KernelSet& set, AttentionMemory& memory, const StepInputs& step,
                  const AttentionOptions& options, const float* sinks, Rows q, Rows out) {
  const auto& cache = static_cast<const HostKvCache&>(*step.cache);
  const auto [kvHeads, headDim] = cache.shape.headsOf(options.layer);
  const DType dtype = attentionDType(cache.shape.format);
  const AttentionJob job{cache.layouts[options.layer],
                         cache.layer(options.layer),
                         reinterpret_cast<const float*>(q.data),
                         static_cast<size_t>(q.stride),
                         options.heads,
                         kvHeads,
                         options.scale,
                         options.softcap,
                         sinks,
                         out.data,
                         static_cast<size_t>(out.stride) * elementBytes(dtype)};
  clearPadding(dtype, int64_t{options.heads} * headDim, out);
  const AttentionKernels& kernels = kernelsFor(set, dtype, options.softcap);
  const TaskSize size = taskSize(kernels, job);
  const int layerGroup = cache.shape.layers.of[options.layer].group;
  std::vector<PlannedTask> tasks = plan(step, layerGroup, kvHeads, size, options);
  if (tasks.empty()) return;
  Attention attention(pool, set, kernels, memory, job, size);
  const bool canSplit = std::any_of(tasks.begin(), tasks.end(), [](const PlannedTask& task) { return task.partitions() > 1; });
  const bool tooFew = static_cast<int>(tasks.size()) < 2 * pool.threads() && canSplit;
  if (tooFew) attention.runPartitioned(tasks);
  else attention.runWhole(tasks);
}

}  // namespace svc::cpu
