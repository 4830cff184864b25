// One expert after the other, each with all threads: its rows are gathered, and multiplied as any rows are. At the end each token's
// outputs are added.

#include "cpu/experts.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "cpu/routing.h"

namespace svc::cpu {
namespace {

/// Fewest bytes that a task moves, and logits that it routes: less is done before another thread has woken.
constexpr size_t kTaskBytes = size_t{64} << 10;
constexpr int kTaskLogits = 2048;

/// Calls body(begin, end) for ranges of `perTask` of `count` rows.
template <class Body>
void inRanges(ThreadPool& pool, int count, int perTask, const Body& body) {
  pool.run((count + perTask - 1) / perTask,
           [&](int task, int) { body(task * perTask, std::min((task + 1) * perTask, count)); });
}

int rowsOfTask(size_t rowBytes) { return static_cast<int>(std::max<size_t>(1, kTaskBytes / rowBytes)); }

/// `rows` rows in `pages`, an odd number of cache lines apart: rows a power of two apart would share few sets of a cache.
Rows rowsIn(Pages& pages, int rows, int64_t cols, DType dtype) {
  const size_t lines = (cols * elementBytes(dtype) + kStepBytes - 1) / kStepBytes | 1;
  const size_t bytes = lines * kStepBytes * rows;
  if (pages.size() < bytes) pages = Pages(bytes);
  return {pages.data(), rows, static_cast<int64_t>(lines * kStepBytes / elementBytes(dtype))};
}

char* rowAt(const Rows& rows, int64_t row, DType dtype) { return rows.data + row * rows.stride * elementBytes(dtype); }
float* floatsAt(const Rows& rows, int64_t row) { return reinterpret_cast<float*>(rowAt(rows, row, DType::F32)); }

const float* numbersOf(const Vector* vector) {
  return vector == nullptr ? nullptr : static_cast<const HostVector*>(vector)->values.data();
}

void routeRows(ThreadPool& pool, ExpertsMemory& memory, const Experts& experts, Rows logits) {
  const int topK = experts.routing.topK, count = experts.total;
  memory.ids.resize(static_cast<size_t>(logits.rows) * topK);
  memory.weights.resize(memory.ids.size());
  const float *bias = numbersOf(experts.bias), *factors = numbersOf(experts.factors);
  inRanges(pool, logits.rows, std::max(1, kTaskLogits / count), [&](int begin, int end) {
    Router router(experts.routing, bias, factors, count);
    for (int64_t row = begin; row < end; ++row) {
      router.route(floatsAt(logits, row), &memory.ids[row * topK], &memory.weights[row * topK]);
    }
  });
}

/// Sorts the routed rows of this rank's experts by expert, and lists those of each token.
void sortByExpert(ExpertsMemory& memory, const Experts& experts, int rows) {
  const int topK = experts.routing.topK, count = experts.count();
  const auto isOwn = [&](int32_t id) { return id >= experts.first && id < experts.first + count; };
  std::vector<int>& starts = memory.starts;
  std::vector<int>& firsts = memory.firsts;
  starts.assign(count + 1, 0);
  firsts.assign(rows + 1, 0);
  for (size_t i = 0; i < memory.ids.size(); ++i) {
    if (!isOwn(memory.ids[i])) continue;
    ++starts[memory.ids[i] - experts.first + 1];
    ++firsts[i / topK + 1];
  }
  for (int expert = 0; expert < count; ++expert) starts[expert + 1] += starts[expert];
  for (int row = 0; row < rows; ++row) firsts[row + 1] += firsts[row];
  memory.routed.resize(starts.back());
  memory.places.resize(starts.back());
  std::vector<int> next(starts.begin(), starts.end() - 1);
  for (int32_t row = 0; row < rows; ++row) {
    for (int i = row * topK; i < (row + 1) * topK; ++i) {
      if (isOwn(memory.ids[i])) memory.routed[next[memory.ids[i] - experts.first]++] = {row, memory.weights[i]};
    }
  }
  next.assign(firsts.begin(), firsts.end() - 1);
  for (int i = 0; i < starts.back(); ++i) memory.places[next[memory.routed[i].row]++] = i;
}

/// to = from * weight, in numbers of this format.
void copyWeighed(const KernelSet& set, DType dtype, const char* from, float weight, int64_t cols, std::vector<float>& numbers, char* to) {
  numbers.resize(cols);
  set.widen[static_cast<int>(dtype)](from, numbers.data(), cols);
  set.scale(numbers.data(), weight, static_cast<int>(cols));
  if (dtype == DType::F32) std::memcpy(to, numbers.data(), cols * sizeof(float));
  else set.narrow(numbers.data(), reinterpret_cast<uint16_t*>(to), cols);
}

/// What an expert sees of its rows.
Rows gathered(ThreadPool& pool, const KernelSet& set, bool weighs, Pages& pages, const RoutedRow* routed, int count, Rows x, int64_t cols, DType dtype) {
  const Rows out = rowsIn(pages, count, cols, dtype);
  const size_t rowBytes = cols * elementBytes(dtype);
  inRanges(pool, count, rowsOfTask(rowBytes), [&](int begin, int end) {
    std::vector<float> numbers;
    for (int i = begin; i < end; ++i) {
      const char* const from = rowAt(x, routed[i].row, dtype);
      if (weighs) copyWeighed(set, dtype, from, routed[i].weight, cols, numbers, rowAt(out, i, dtype));
      else std::memcpy(rowAt(out, i, dtype), from, rowBytes);
    }
  });
  return out;
}

/// Adds up what the experts of a token have given.
class TokenSum {
 public:
  TokenSum(const KernelSet& set, std::vector<float>& memory, int cols) : set_(set), memory_(memory), cols_(cols) {
    memory_.resize(static_cast<size_t>(kExpertGroups) * cols);
  }

  /// The next token, whose sum is in `out`.
  void begin(float* out) {
    out_ = out;
    last_ = 0;
    sums_.fill(nullptr);
  }

  /// Groups come in order.
  void add(int group, const float* output, float weight) {
    float*& sum = sums_[group];
    if (sum == nullptr) {
      // The first group takes the others into it.
      sum = std::exchange(out_, memory_.data() + last_++ * cols_);
      std::fill_n(sum, cols_, -0.0f);
    }
    set_.addScaled(sum, output, weight, cols_);
  }

  void end() {
    for (int step = 1; step < kExpertGroups; step *= 2) {
      for (int group = 0; group < kExpertGroups; group += 2 * step) join(sums_[group], sums_[group + step]);
    }
    if (sums_[0] == nullptr) std::fill_n(out_, cols_, -0.0f);
  }

 private:
  void join(float*& left, float* right) {
    if (left == nullptr) left = right;
    else if (right != nullptr) set_.addScaled(left, right, 1, cols_);
  }

  const KernelSet& set_;
  std::vector<float>& memory_;
  const int cols_;
  float* out_ = nullptr;
  size_t last_ = 0;
  std::array<float*, kExpertGroups> sums_{};
};

void addOutputs(ThreadPool& pool, const KernelSet& set, ExpertsMemory& memory, const Experts& experts, Rows outputs, Rows out) {
  const int cols = experts.downs.front()->n;
  std::vector<int> groups(experts.count());
  for (int group = 0; group < kExpertGroups; ++group) {
    const int begin = std::max(firstOfGroup(experts.total, group) - experts.first, 0);
    const int end = std::min(firstOfGroup(experts.total, group + 1) - experts.first, experts.count());
    for (int expert = begin; expert < end; ++expert) groups[expert] = group;
  }
  std::vector<int> groupOf(memory.routed.size());
  for (int expert = 0; expert < experts.count(); ++expert) {
    std::fill(groupOf.begin() + memory.starts[expert], groupOf.begin() + memory.starts[expert + 1], groups[expert]);
  }
  memory.tokenSums.resize(pool.threads());
  const int perTask = rowsOfTask(cols * sizeof(float) * experts.routing.topK);
  pool.run((out.rows + perTask - 1) / perTask, [&](int task, int thread) {
    TokenSum sum(set, memory.tokenSums[thread], cols);
    for (int row = task * perTask; row < std::min((task + 1) * perTask, out.rows); ++row) {
      sum.begin(floatsAt(out, row));
      for (int i = memory.firsts[row]; i < memory.firsts[row + 1]; ++i) {
        const int place = memory.places[i];
        sum.add(groupOf[place], floatsAt(outputs, place), experts.routing.weighsInputs ? 1.0f : memory.routed[place].weight);
      }
      sum.end();
    }
  });
}

}  // namespace

void runExperts(ThreadPool& pool, const KernelSet& set, ProductMemory& products, ExpertsMemory& memory,
                const Experts& experts, Rows logits, Rows x, Rows out) {
  routeRows(pool, memory, experts, logits);
  sortByExpert(memory, experts, logits.rows);
  const Rows outputs = rowsIn(memory.outputs, static_cast<int>(memory.routed.size()), experts.downs.front()->n, DType::F32);
  for (int expert = 0; expert < experts.count(); ++expert) {
    const RoutedRow* routed = memory.routed.data() + memory.starts[expert];
    const int rows = memory.starts[expert + 1] - memory.starts[expert];
    if (rows == 0) continue;
    const auto& up = static_cast<const PackedWeight&>(*experts.ups[expert]);
    const auto& down = static_cast<const PackedWeight&>(*experts.downs[expert]);
    const DType dtype = inputDType(up.format);
    const Rows input = gathered(pool, set, experts.routing.weighsInputs, memory.inputs, routed, rows, x, paddedCols(dtype, up.k), dtype);
    const Rows hidden = rowsIn(memory.hidden, rows, roundUp(up.n, kHalfDepth), dtype);
    const Rows output{rowAt(outputs, memory.starts[expert], DType::F32), rows, outputs.stride};
    if (const auto* gated = std::get_if<GatedActivation>(&experts.activation)) {
      runGateUp(pool, set, products, up, *gated, input, hidden);
    } else {
      const Rows sums = rowsIn(memory.sums, rows, up.n, DType::F32);
      runLinear(pool, set, products, up, input, sums, false);
      runActivate(pool, set, std::get<Activation>(experts.activation), sums, up.n, dtype, hidden);
    }
    runLinear(pool, set, products, down, hidden, output, false);
  }
  addOutputs(pool, set, memory, experts, outputs, out);
}

}  // namespace svc::cpu
