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
/// With many rows, tasks are cut smaller than they may be until each thread has so many.
constexpr int kManyTasksPerThread = 4;

/// Kernels write whole vectors of 16 columns; the next product reads bf16 rows up to a multiple of 32.
void clearPadding(const PackedWeight& weight, Rows out) {
  const int64_t written = roundUp(weight.n, kLanes), padded = roundUp(weight.n, kBf16Depth);
  if (inputDType(weight.format) != DType::Bf16 || written == padded) return;
  for (int64_t row = 0; row < out.rows; ++row) {
    std::memset(out.data + (row * out.stride + written) * 2, 0, static_cast<size_t>(padded - written) * 2);
  }
}

int ceilDiv(int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b); }

/// Calls kernel(rows, groups) in tasks. A group is one panel of the output: `panelsOfGroup` of the weight.
template <class Kernel>
void cut(ThreadPool& pool, const KernelSet& set, const PackedWeight& weight, int rows, int panelsOfGroup,
         const Kernel& kernel) {
  const int groups = weight.panels / panelsOfGroup;
  const int groupsAtOnce = ceilDiv(set.panelsAtOnce, panelsOfGroup);
  const size_t groupBytes = static_cast<size_t>(stepsOf(weight.format, weight.k)) * kStepBytes * panelsOfGroup;
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
  const int rowBlocks = ceilDiv(rows, set.rowsOfTask);
  const int fairGroups = ceilDiv(groups * rowBlocks, pool.threads() * kManyTasksPerThread);
  const int mostGroups = set.panelsOfTask / panelsOfGroup;
  const int taskGroups = static_cast<int>(std::min<int64_t>(roundUp(fairGroups, groupsAtOnce), mostGroups));
  const int columnTasks = ceilDiv(groups, taskGroups);
  pool.run(columnTasks * rowBlocks, [&](int task, int) {
    const int block = task / columnTasks, column = task % columnTasks;
    const Range rowRange{static_cast<int>(int64_t{rows} * block / rowBlocks),
                         static_cast<int>(int64_t{rows} * (block + 1) / rowBlocks)};
    kernel(rowRange, Range{column * taskGroups, std::min((column + 1) * taskGroups, groups)});
  });
}

/// Rows of x as the kernels of a weight take them.
struct Input {
  const char* x;
  size_t stride;  // bytes
  Dequantization scales;
};

Input quantized(ThreadPool& pool, const KernelSet& set, QuantizedRows& memory, const PackedWeight& weight, Rows x) {
  const auto quantize = set.quantize[static_cast<int>(inputDType(weight.format))];
  const size_t rowBytes = static_cast<size_t>(x.stride) * elementBytes(inputDType(weight.format));
  const int padded = static_cast<int>(roundUp(weight.k, kInt8Depth));
  // Rows a power of two apart would share a few sets of the first-level cache.
  const size_t stride = padded + kStepBytes;
  if (memory.numbers.size() < stride * x.rows) memory.numbers = Pages(stride * x.rows);
  if (memory.scales.size() < static_cast<size_t>(x.rows)) memory.scales.resize(x.rows);
  const auto row = [&](int64_t i) {
    const auto out = reinterpret_cast<uint8_t*>(memory.numbers.data() + i * stride);
    memory.scales[i] = quantize(x.data + i * rowBytes, weight.k, padded, out);
  };
  const int taskRows = static_cast<int>(std::max<size_t>(1, kSerialBytes / rowBytes));
  pool.run(ceilDiv(x.rows, taskRows), [&](int task, int) {
    for (int i = task * taskRows; i < std::min((task + 1) * taskRows, x.rows); ++i) row(i);
  });
  return {memory.numbers.data(), stride, {memory.scales.data(), weight.scales.data(), weight.offsets.data()}};
}

Input inputOf(ThreadPool& pool, const KernelSet& set, QuantizedRows& memory, const PackedWeight& weight, Rows x) {
  if (weight.format == WeightFormat::Int8) return quantized(pool, set, memory, weight, x);
  return {x.data, static_cast<size_t>(x.stride) * elementBytes(inputDType(weight.format)), {}};
}

}  // namespace

void runLinear(ThreadPool& pool, const KernelSet& set, QuantizedRows& memory, const PackedWeight& weight, Rows x,
               Rows out, bool add) {
  const int steps = stepsOf(weight.format, weight.k);
  const Input input = inputOf(pool, set, memory, weight, x);
  const LinearJob job{input.x,
                      input.stride,
                      weight.data.data(),
                      steps,
                      weight.n,
                      weight.biasOrNull(),
                      reinterpret_cast<float*>(out.data),
                      static_cast<size_t>(out.stride),
                      add,
                      input.scales};
  const auto kernel = set.linear[static_cast<int>(weight.format)];
  cut(pool, set, weight, x.rows, 1, [&](Range rows, Range panels) { kernel(job, rows, panels); });
}

void runSiluGateUp(ThreadPool& pool, const KernelSet& set, QuantizedRows& memory, const PackedWeight& weight, Rows x,
                   Rows out) {
  const int steps = stepsOf(weight.format, weight.k);
  const Input input = inputOf(pool, set, memory, weight, x);
  const GateUpJob job{input.x,
                      input.stride,
                      weight.data.data(),
                      steps,
                      weight.biasOrNull(),
                      out.data,
                      static_cast<size_t>(out.stride) * elementBytes(inputDType(weight.format)),
                      input.scales};
  clearPadding(weight, out);
  const auto kernel = set.gateUp[static_cast<int>(weight.format)];
  cut(pool, set, weight, x.rows, 2, [&](Range rows, Range panels) { kernel(job, rows, panels); });
}

}  // namespace svc::cpu
