// One expert after the other, each with all threads: its rows are gathered, multiplied as any rows are, and added.

#include "cpu/experts.h"

#include <algorithm>
#include <cstring>

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

void routeRows(ThreadPool& pool, ExpertsMemory& memory, const Experts& experts, Rows logits) {
  const int topK = experts.routing.topK, count = experts.count();
  memory.ids.resize(static_cast<size_t>(logits.rows) * topK);
  memory.weights.resize(memory.ids.size());
  const float* bias = experts.bias == nullptr ? nullptr : static_cast<const HostVector*>(experts.bias)->values.data();
  inRanges(pool, logits.rows, std::max(1, kTaskLogits / count), [&](int begin, int end) {
    Router router(experts.routing, bias, count);
    for (int64_t row = begin; row < end; ++row) {
      router.route(floatsAt(logits, row), &memory.ids[row * topK], &memory.weights[row * topK]);
    }
  });
}

/// Sorts the routed rows by expert.
void sortByExpert(ExpertsMemory& memory, const Experts& experts, int rows) {
  const int topK = experts.routing.topK;
  std::vector<int>& starts = memory.starts;
  starts.assign(experts.count() + 1, 0);
  for (const int32_t id : memory.ids) ++starts[id + 1];
  for (int expert = 0; expert < experts.count(); ++expert) starts[expert + 1] += starts[expert];
  memory.routed.resize(memory.ids.size());
  std::vector<int> next(starts.begin(), starts.end() - 1);
  for (int32_t row = 0; row < rows; ++row) {
    for (int i = row * topK; i < (row + 1) * topK; ++i) memory.routed[next[memory.ids[i]]++] = {row, memory.weights[i]};
  }
}

Rows gathered(ThreadPool& pool, Pages& pages, const RoutedRow* routed, int count, Rows x, int64_t cols, DType dtype) {
  const Rows out = rowsIn(pages, count, cols, dtype);
  const size_t rowBytes = cols * elementBytes(dtype);
  inRanges(pool, count, rowsOfTask(rowBytes), [&](int begin, int end) {
    for (int i = begin; i < end; ++i) std::memcpy(rowAt(out, i, dtype), rowAt(x, routed[i].row, dtype), rowBytes);
  });
  return out;
}

void clear(ThreadPool& pool, Rows out, int cols) {
  const size_t rowBytes = cols * sizeof(float);
  inRanges(pool, out.rows, rowsOfTask(rowBytes), [&](int begin, int end) {
    for (int row = begin; row < end; ++row) std::memset(floatsAt(out, row), 0, rowBytes);
  });
}

void addWeighted(ThreadPool& pool, const KernelSet& set, const RoutedRow* routed, Rows outputs, int cols, Rows out) {
  inRanges(pool, outputs.rows, rowsOfTask(cols * sizeof(float)), [&](int begin, int end) {
    for (int i = begin; i < end; ++i) {
      set.addScaled(floatsAt(out, routed[i].row), floatsAt(outputs, i), routed[i].weight, cols);
    }
  });
}

}  // namespace

void runExperts(ThreadPool& pool, const KernelSet& set, ProductMemory& products, ExpertsMemory& memory,
                const Experts& experts, Rows logits, Rows x, Rows out) {
  routeRows(pool, memory, experts, logits);
  sortByExpert(memory, experts, logits.rows);
  clear(pool, out, experts.downs.front()->n);
  for (int expert = 0; expert < experts.count(); ++expert) {
    const RoutedRow* routed = memory.routed.data() + memory.starts[expert];
    const int rows = memory.starts[expert + 1] - memory.starts[expert];
    if (rows == 0) continue;
    const auto& gateUp = static_cast<const PackedWeight&>(*experts.gateUps[expert]);
    const auto& down = static_cast<const PackedWeight&>(*experts.downs[expert]);
    const DType dtype = inputDType(gateUp.format);
    const Rows input = gathered(pool, memory.inputs, routed, rows, x, paddedCols(dtype, gateUp.k), dtype);
    const Rows hidden = rowsIn(memory.hidden, rows, roundUp(gateUp.n, kBf16Depth), dtype);
    const Rows output = rowsIn(memory.outputs, rows, down.n, DType::F32);
    runGateUp(pool, set, products, gateUp, experts.activation, input, hidden);
    runLinear(pool, set, products, down, hidden, output, false);
    addWeighted(pool, set, routed, output, down.n, out);
  }
}

}  // namespace svc::cpu
