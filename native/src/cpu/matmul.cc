// How a product is cut: by output columns, so that each task streams its own weights, and with many rows by rows too.

#include "cpu/matmul.h"

#include <algorithm>
#include <cstring>

namespace svc::cpu {
namespace {

/// Up to this many rows a product is bound by reading the weights: each task passes over them once.
constexpr int kFewRows = 16;
/// Weights of a task with few rows: small enough to balance, large enough to hide the ticket.
constexpr size_t kLeastTaskBytes = size_t{32} << 10;
constexpr size_t kMostTaskBytes = size_t{256} << 10;
constexpr int kTasksPerThread = 16;
/// Below this the other threads would come too late to help.
constexpr size_t kSerialBytes = size_t{48} << 10;
/// Rows of a task with many: their activations stay in the cache while the panels pass.
constexpr int kRowBlock = 192;

/// Kernels write whole vectors of 16 columns; the next product reads bf16 rows up to a multiple of 32.
void clearPadding(const PackedWeight& weight, Rows out) {
  const int64_t written = roundUp(weight.n, kLanes), padded = roundUp(weight.n, kBf16Depth);
  if (weight.dtype != DType::Bf16 || written == padded) return;
  for (int64_t row = 0; row < out.rows; ++row) {
    std::memset(out.data + (row * out.stride + written) * 2, 0, static_cast<size_t>(padded - written) * 2);
  }
}

int ceilDiv(int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b); }

/// Calls kernel(rows, groups) in tasks; a group is one panel of the output: `groupBytes` of weights.
template <class Kernel>
void cut(ThreadPool& pool, int rows, int groups, size_t groupBytes, int groupsAtOnce, const Kernel& kernel) {
  if (rows == 0 || groups == 0) return;
  const size_t bytes = groupBytes * groups;
  if (bytes * rows <= kSerialBytes) return kernel(Range{0, rows}, Range{0, groups});
  if (rows <= kFewRows) {
    const size_t target = std::clamp(bytes / (pool.threads() * kTasksPerThread), kLeastTaskBytes, kMostTaskBytes);
    const int taskGroups = static_cast<int>(roundUp(std::max<int64_t>(target / groupBytes, 1), groupsAtOnce));
    pool.run(ceilDiv(groups, taskGroups), [&](int task, int) {
      kernel(Range{0, rows}, Range{task * taskGroups, std::min((task + 1) * taskGroups, groups)});
    });
    return;
  }
  const int rowBlocks = ceilDiv(rows, kRowBlock);
  const int taskGroups = 4;
  const int columnTasks = ceilDiv(groups, taskGroups);
  pool.run(columnTasks * rowBlocks, [&](int task, int) {
    const int block = task / columnTasks, column = task % columnTasks;
    const Range rowRange{static_cast<int>(int64_t{rows} * block / rowBlocks),
                         static_cast<int>(int64_t{rows} * (block + 1) / rowBlocks)};
    kernel(rowRange, Range{column * taskGroups, std::min((column + 1) * taskGroups, groups)});
  });
}

}  // namespace

void runLinear(ThreadPool& pool, const KernelSet& set, const PackedWeight& weight, Rows x, Rows out, bool add) {
  const int steps = stepsOf(weight.dtype, weight.k);
  const LinearJob job{x.data,
                      static_cast<size_t>(x.stride) * elementBytes(weight.dtype),
                      weight.data.data(),
                      steps,
                      weight.n,
                      weight.biasOrNull(),
                      reinterpret_cast<float*>(out.data),
                      static_cast<size_t>(out.stride),
                      add};
  const auto kernel = set.linear[static_cast<int>(weight.dtype)];
  cut(pool, x.rows, weight.panels, static_cast<size_t>(steps) * kStepBytes, set.panelsAtOnce,
      [&](Range rows, Range panels) { kernel(job, rows, panels); });
}

void runSiluGateUp(ThreadPool& pool, const KernelSet& set, const PackedWeight& weight, Rows x, Rows out) {
  const int steps = stepsOf(weight.dtype, weight.k);
  const GateUpJob job{x.data,
                     static_cast<size_t>(x.stride) * elementBytes(weight.dtype),
                     weight.data.data(),
                     steps,
                     weight.biasOrNull(),
                     out.data,
                     static_cast<size_t>(out.stride) * elementBytes(weight.dtype)};
  clearPadding(weight, out);
  const auto kernel = set.gateUp[static_cast<int>(weight.dtype)];
  cut(pool, x.rows, weight.panels / 2, static_cast<size_t>(steps) * kStepBytes * 2, (set.panelsAtOnce + 1) / 2,
      [&](Range rows, Range panels) { kernel(job, rows, panels); });
}

}  // namespace svc::cpu
