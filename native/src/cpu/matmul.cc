// How a product is cut: by output columns, so that each task streams its own weights, and with many rows by rows too.

#include "cpu/matmul.h"

#include <algorithm>
#include <cstring>

#include "cpu/each_row.h"
#include "threads/shares.h"

namespace svc::cpu {
namespace {

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
  const int64_t written = roundUp(weight.n, kLanes), padded = roundUp(weight.n, kHalfDepth);
  if (inputDType(weight.format) != DType::Bf16 || written == padded) return;
  for (int64_t row = 0; row < out.rows; ++row) {
    std::memset(out.data + (row * out.stride + written) * 2, 0, static_cast<size_t>(padded - written) * 2);
  }
}

int ceilDiv(int64_t a, int64_t b) { return static_cast<int>((a + b - 1) / b); }

size_t panelBytesOf(const PackedWeight& weight) { return weight.bytes / weight.panels; }

/// Calls kernel(rows, groups, thread) in tasks. A group is one panel of the output: `panelsOfGroup` of the weight.
template <class Kernel>
void cut(ThreadPool& pool, const KernelSet& set, const PackedWeight& weight, int rows, int panelsOfGroup,
         const Kernel& kernel) {
  const int groups = weight.panels / panelsOfGroup;
  const int groupsAtOnce = ceilDiv(set.panelsAtOnce, panelsOfGroup);
  const size_t groupBytes = panelBytesOf(weight) * panelsOfGroup;
  if (rows == 0 || groups == 0) return;
  const size_t bytes = groupBytes * groups;
  if (bytes * rows <= kSerialBytes) return kernel(Range{0, rows}, Range{0, groups}, 0);
  if (rows <= kFewRows) {
    const size_t target = std::clamp(bytes / (pool.threads() * kTasksPerThread), kLeastTaskBytes, kMostTaskBytes);
    const int taskGroups = static_cast<int>(roundUp(std::max<int64_t>(target / groupBytes, 1), groupsAtOnce));
    const int tasks = ceilDiv(groups, taskGroups);
    Shares shares(tasks, pool.threads());
    pool.run(tasks, [&](int, int thread) {
      const int task = shares.take(thread);
      kernel(Range{0, rows}, Range{task * taskGroups, std::min((task + 1) * taskGroups, groups)}, thread);
    });
    return;
  }
  const int rowBlocks = ceilDiv(rows, set.rowsOfTask);
  const int fairGroups = ceilDiv(groups * rowBlocks, pool.threads() * kManyTasksPerThread);
  const int mostGroups = set.panelsOfTask / panelsOfGroup;
  const int taskGroups = static_cast<int>(std::min<int64_t>(roundUp(fairGroups, groupsAtOnce), mostGroups));
  const int columnTasks = ceilDiv(groups, taskGroups);
  pool.run(columnTasks * rowBlocks, [&](int task, int thread) {
    const int block = task / columnTasks, column = task % columnTasks;
    const Range rowRange{static_cast<int>(int64_t{rows} * block / rowBlocks),
                         static_cast<int>(int64_t{rows} * (block + 1) / rowBlocks)};
    kernel(rowRange, Range{column * taskGroups, std::min((column + 1) * taskGroups, groups)}, thread);
  });
}

/// Rows of x as the kernels of a weight take them.
struct Input {
  const char* x;
  size_t stride;  // bytes
  Dequantization scales;
};

Input quantized(ThreadPool& pool, const KernelSet& set, ProductMemory& memory, const PackedWeight& weight, Rows x) {
  const auto quantize = set.quantize[static_cast<int>(inputDType(weight.format))];
  const size_t rowBytes = static_cast<size_t>(x.stride) * elementBytes(inputDType(weight.format));
  const int padded = static_cast<int>(roundUp(weight.k, kInt8Depth));
  // Rows a power of two apart would share a few sets of the first-level cache.
  const size_t stride = padded + kStepBytes;
  if (memory.rows.size() < stride * x.rows) memory.rows = Pages(stride * x.rows);
  if (memory.scales.size() < static_cast<size_t>(x.rows)) memory.scales.resize(x.rows);
  eachRow(pool, x.rows, weight.k, [&](int64_t i) {
    const auto out = reinterpret_cast<uint8_t*>(memory.rows.data() + i * stride);
    memory.scales[i] = quantize(x.data + i * rowBytes, weight.k, padded, out);
  });
  return {memory.rows.data(), stride, {memory.scales.data(), weight.scales.data(), weight.offsets.data()}};
}

/// Rows of bf16 with their columns in the order of the weight's k.
Input reordered(ThreadPool& pool, ProductMemory& memory, const PackedWeight& weight, Rows x) {
  const size_t stride = paddedCols(DType::Bf16, weight.k) * elementBytes(DType::Bf16) + kStepBytes;
  if (memory.rows.size() < stride * x.rows) memory.rows = Pages(stride * x.rows);
  eachRow(pool, x.rows, weight.k, [&](int64_t row) {
    const auto from = reinterpret_cast<const uint16_t*>(x.data) + row * x.stride;
    const auto to = reinterpret_cast<uint16_t*>(memory.rows.data() + row * stride);
    for (int i = 0; i < weight.k; ++i) to[i] = from[weight.columns[i]];
    std::fill(to + weight.k, to + paddedCols(DType::Bf16, weight.k), uint16_t{0});
  });
  return {memory.rows.data(), stride, {}};
}

bool takesTurnedRows(const KernelSet& set, const PackedWeight& weight, int rows) {
  return set.turnRows != nullptr && weight.format == WeightFormat::Codes && codeBits(weight.codes.kind) == 4 && rows > 1 &&
         rows <= kFewRows;
}

Input turned(ThreadPool& pool, const KernelSet& set, ProductMemory& memory, const PackedWeight& weight, const Input& x, int rows) {
  const int steps = stepsOf(weight.format, weight.k);
  const size_t bytes = static_cast<size_t>(steps) * kStepBytes;
  if (memory.rowsForCodes.size() < bytes) memory.rowsForCodes = Pages(bytes);
  const int taskSteps = static_cast<int>(kSerialBytes / kStepBytes);
  pool.run(ceilDiv(steps, taskSteps), [&](int task, int) {
    const int begin = task * taskSteps, end = std::min(begin + taskSteps, steps);
    set.turnRows(x.x + begin * 4, x.stride, rows, end - begin, memory.rowsForCodes.data() + begin * kStepBytes);
  });
  return {memory.rowsForCodes.data(), kStepBytes, {}};
}

bool takesFixedRows(const KernelSet& set, const PackedWeight& weight) {
  return set.toFixed != nullptr && weight.format == WeightFormat::Codes && weight.codes.kind != CodeKind::Fp8;
}

Input fixed(ThreadPool& pool, const KernelSet& set, ProductMemory& memory, const PackedWeight& weight, const Input& x, int rows) {
  const int blocks = stepsOf(weight.format, weight.k) / kCodeSteps;
  // Rows a power of two apart would share a few sets of the first-level cache.
  const size_t stride = blocks * sizeof(FixedBlock) + kStepBytes;
  if (memory.rowsForCodes.size() < stride * rows) memory.rowsForCodes = Pages(stride * rows);
  eachRow(pool, rows, weight.k, [&](int64_t row) {
    set.toFixed(reinterpret_cast<const uint16_t*>(x.x + row * x.stride), blocks,
                reinterpret_cast<FixedBlock*>(memory.rowsForCodes.data() + row * stride));
  });
  return {memory.rowsForCodes.data(), stride, {}};
}

Input inputOf(ThreadPool& pool, const KernelSet& set, ProductMemory& memory, const PackedWeight& weight, Rows x) {
  if (isWhole(weight.format)) return quantized(pool, set, memory, weight, x);
  Input input{x.data, static_cast<size_t>(x.stride) * elementBytes(inputDType(weight.format)), {}};
  if (!weight.columns.empty()) input = reordered(pool, memory, weight, x);
  if (takesFixedRows(set, weight)) return fixed(pool, set, memory, weight, input, x.rows);
  return takesTurnedRows(set, weight, x.rows) ? turned(pool, set, memory, weight, input, x.rows) : input;
}

/// What panels are when they are multiplied: with many rows it is less work to expand them first than in each tile.
WeightFormat multipliedFormat(const KernelSet& set, const PackedWeight& weight, int rows) {
  if (rows <= kFewRows) return weight.format;
  switch (weight.format) {
    case WeightFormat::Codes: return set.expand != nullptr && !takesFixedRows(set, weight) ? WeightFormat::Half : weight.format;
    case WeightFormat::Ternary: return set.widenTernary != nullptr ? WeightFormat::Int8 : weight.format;
    default: return weight.format;
  }
}

/// The task's panels, `steps` steps each when they are expanded, in memory of the thread.
const char* expanded(const KernelSet& set, ProductMemory& memory, const PackedWeight& weight, Range panels, int steps, int thread) {
  const int count = panels.end - panels.begin;
  const size_t bytes = static_cast<size_t>(steps) * kStepBytes * count;
  Pages& pages = memory.panels[thread];
  if (pages.size() < bytes) pages = Pages(bytes);
  const char* const from = weight.data.data() + panels.begin * panelBytesOf(weight);
  if (weight.format == WeightFormat::Codes) set.expand(weight.codes, from, steps, count, pages.data());
  else set.widenTernary(from, panelBytesOf(weight) * count, pages.data());
  return pages.data();
}

/// Begins to bring B of some rows and panels from memory.
void fetch(const LowRank& lowRank, Range rows, Range panels) {
  if (panels.begin >= panels.end) return;
  const size_t blockBytes = kRankDepth * kLanes * elementBytes(lowRank.dtype);
  for (const LowRankRows& adapter : lowRank.adapters) {
    if (std::max(rows.begin, adapter.rows.begin) >= std::min(rows.end, adapter.rows.end)) continue;
    const LowRankPanel& last = adapter.panels[panels.end - 1];
    const char* const end = last.blocks + last.count * blockBytes;
    for (const char* line = adapter.panels[panels.begin].blocks; line < end; line += kStepBytes) __builtin_prefetch(line, 0, 2);
  }
}

/// What is added to the rows and panels of a task. What the next one will add, which the same thread mostly takes, is fetched while it multiplies.
Addends addendsOf(const KernelSet& set, ProductMemory& memory, const PackedWeight& weight,
                  const LowRank& lowRank, Range rows, Range panels, int thread) {
  const int count = panels.end - panels.begin;
  const size_t stride = static_cast<size_t>(count) * kLanes, bytes = sizeof(float) * stride * (rows.end - rows.begin);
  Pages& pages = memory.addends[thread];
  if (pages.size() < bytes) pages = Pages(bytes);
  const auto numbers = reinterpret_cast<float*>(pages.data());
  set.lowRank[static_cast<int>(lowRank.dtype)](lowRank.adapters.data(), static_cast<int>(lowRank.adapters.size()), rows, panels,
                                               numbers);
  fetch(lowRank, rows, {panels.end, std::min(panels.end + count, weight.panels)});
  return {numbers, stride};
}

/// Gives the job of a task what adapters add to its rows and panels.
template <class Job>
void addLowRank(Job& part, const KernelSet& set, ProductMemory& memory, const PackedWeight& weight,
                const LowRank& lowRank, Range rows, Range panels, int thread) {
  const int count = static_cast<int>(lowRank.adapters.size());
  if (count == 0) return;
  if (set.addsLowRank[static_cast<int>(weight.format)]) part.lowRank = {lowRank.adapters.data(), count, rows.begin, panels.begin};
  else part.addends = addendsOf(set, memory, weight, lowRank, rows, panels, thread);
}

/// The job of a task: its rows and panels are counted from the task's first ones. `job.out` is still that of the whole product.
template <class Job>
Job partOf(const KernelSet& set, ProductMemory& memory, const PackedWeight& weight, const Job& job, Range rows, Range panels,
           bool expands, int thread) {
  Job part = job;
  const int column = panels.begin * kLanes;
  part.x += rows.begin * job.xStride;
  if (expands) part.panels = expanded(set, memory, weight, panels, job.steps, thread);
  else part.panels += panels.begin * panelBytesOf(weight);
  if (job.bias != nullptr) part.bias += column;
  if (isWhole(weight.format)) {
    part.scales = {job.scales.rowScales + rows.begin, job.scales.columnScales + column, job.scales.offsets + column};
  }
  return part;
}

}  // namespace

void runLinear(ThreadPool& pool, const KernelSet& set, ProductMemory& memory, const PackedWeight& weight, Rows x,
               Rows out, bool add, const LowRank& lowRank) {
  const Input input = inputOf(pool, set, memory, weight, x);
  const WeightFormat multiplied = multipliedFormat(set, weight, x.rows);
  const bool expands = multiplied != weight.format;
  const LinearJob job{input.x,
                      input.stride,
                      weight.data.data(),
                      stepsOf(multiplied, weight.k),
                      weight.n,
                      weight.biasOrNull(),
                      reinterpret_cast<float*>(out.data),
                      static_cast<size_t>(out.stride),
                      add,
                      input.scales,
                      weight.codes};
  if (expands) memory.panels.resize(pool.threads());
  memory.addends.resize(pool.threads());
  const auto kernel = set.linear[static_cast<int>(multiplied)];
  cut(pool, set, weight, x.rows, 1, [&](Range rows, Range panels, int thread) {
    LinearJob part = partOf(set, memory, weight, job, rows, panels, expands, thread);
    addLowRank(part, set, memory, weight, lowRank, rows, panels, thread);
    part.n -= panels.begin * kLanes;
    part.out += rows.begin * job.outStride + panels.begin * kLanes;
    kernel(part, {0, rows.end - rows.begin}, {0, panels.end - panels.begin});
  });
}

void runGateUp(ThreadPool& pool, const KernelSet& set, ProductMemory& memory, const PackedWeight& weight,
               GatedActivation activation, Rows x, Rows out, const LowRank& lowRank) {
  const Input input = inputOf(pool, set, memory, weight, x);
  const WeightFormat multiplied = multipliedFormat(set, weight, x.rows);
  const bool expands = multiplied != weight.format;
  const GateUpJob job{input.x,
                      input.stride,
                      weight.data.data(),
                      stepsOf(multiplied, weight.k),
                      weight.biasOrNull(),
                      out.data,
                      static_cast<size_t>(out.stride) * elementBytes(inputDType(weight.format)),
                      input.scales,
                      weight.codes,
                      activation};
  clearPadding(weight, out);
  if (expands) memory.panels.resize(pool.threads());
  memory.addends.resize(pool.threads());
  const auto kernel = set.gateUp[static_cast<int>(multiplied)];
  cut(pool, set, weight, x.rows, 2, [&](Range rows, Range outPanels, int thread) {
    const Range panels{2 * outPanels.begin, 2 * outPanels.end};
    GateUpJob part = partOf(set, memory, weight, job, rows, panels, expands, thread);
    addLowRank(part, set, memory, weight, lowRank, rows, panels, thread);
    part.out += rows.begin * job.outStride + outPanels.begin * kLanes * elementBytes(inputDType(weight.format));
    kernel(part, {0, rows.end - rows.begin}, {0, outPanels.end - outPanels.begin});
  });
}

}  // namespace svc::cpu
