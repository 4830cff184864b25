// An adapter's rows are neighbours in a step, so that A is one operand of the kernels of all products. B is packed beside it in
// blocks of few ranks: a step reads all of it, and zeros would take as long to read as numbers.

#include "cpu/lora.h"

#include <algorithm>
#include <cstring>

#include "cpu/finite.h"

namespace svc::cpu {
namespace {

/// Rows of x that a task multiplies by A.
constexpr int kRowsOfTask = 32;
/// What matrices take at once from the kernel: a huge page.
constexpr size_t kSharedBytes = size_t{2} << 20;

Range common(Range a, Range b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }
bool isEmpty(Range range) { return range.begin >= range.end; }
int lengthOf(Range range) { return range.end - range.begin; }

PackedWeight packA(ThreadPool& pool, const KernelSet& set, const LoraNumbers& numbers) {
  const WeightForm form{numbers.dtype == DType::F32 ? WeightFormat::F32 : WeightFormat::Half, {}};
  TensorSource source{nullptr, "lora_A", 0, DType::F32, numbers.k, 0, 0, 0};
  source.numbers = std::make_shared<const std::vector<float>>(numbers.a);
  const int rank = static_cast<int>(numbers.scales.size());
  return packLinear(pool, set, {LinearPart{source, rank, {}, {}, {}}}, numbers.k, form);
}

std::shared_ptr<const char> storedA(const PackedWeight& packed, MatrixMemory& memory) {
  const std::shared_ptr<char> a = memory.take(packed.data.size());
  std::memcpy(a.get(), packed.data.data(), packed.data.size());
  return a;
}

/// The bits of B in the format in which it is kept.
std::vector<char> storedB(const KernelSet& set, const LoraNumbers& numbers) {
  const size_t width = elementBytes(numbers.dtype);
  std::vector<char> stored(numbers.b.size() * width);
  if (numbers.dtype == DType::F32) std::memcpy(stored.data(), numbers.b.data(), stored.size());
  else set.narrow(numbers.b.data(), reinterpret_cast<uint16_t*>(stored.data()), static_cast<int64_t>(numbers.b.size()));
  const TensorSource named{nullptr, "lora_B", 0, numbers.dtype, 0, 0, 0, 0};
  const char* row = stored.data();
  for (const LoraPart& part : numbers.parts) {
    for (int i = 0; i < part.columns; ++i, row += part.ranks * width) {
      expectFinite(named, row, numbers.dtype, part.ranks, part.firstColumn + i);
    }
  }
  return stored;
}

/// The product's columns of a panel; those of up come after all of gate.
Range columnsOfPanel(const LoraNumbers& numbers, int panel) {
  const int first = (numbers.isGateUp ? panel / 2 : panel) * kLanes, last = std::min(first + kLanes, numbers.n);
  const int before = numbers.isGateUp ? panel % 2 * numbers.n : 0;
  return {before + first, before + last};
}

/// Calls use(part, columns, rows) with the parts that add to some of a panel's columns; `rows` are those of their first column in
/// the bits of B.
template <class Use>
void eachPartOfPanel(const LoraNumbers& numbers, int panel, const Use& use) {
  size_t start = 0;
  for (const LoraPart& part : numbers.parts) {
    const Range own{part.firstColumn, part.firstColumn + part.columns}, shared = common(columnsOfPanel(numbers, panel), own);
    const size_t rowBytes = part.ranks * elementBytes(numbers.dtype);
    if (!isEmpty(shared)) use(part, shared, start + rowBytes * (shared.begin - own.begin));
    start += rowBytes * part.columns;
  }
}

size_t blockBytes(DType dtype) { return kRankDepth * kLanes * elementBytes(dtype); }

/// Which blocks of ranks each panel has; they are not there yet.
std::vector<LowRankPanel> panelsOf(const LoraNumbers& numbers) {
  const int panels = static_cast<int>(roundUp(numbers.n, kLanes)) / kLanes * (numbers.isGateUp ? 2 : 1);
  std::vector<LowRankPanel> all(panels, LowRankPanel{nullptr, 0, 0});
  for (int panel = 0; panel < panels; ++panel) {
    Range ranks{static_cast<int>(numbers.scales.size()), 0};
    eachPartOfPanel(numbers, panel, [&](const LoraPart& part, Range, size_t) {
      ranks = {std::min(ranks.begin, part.firstRank), std::max(ranks.end, part.firstRank + part.ranks)};
    });
    if (isEmpty(ranks)) continue;
    all[panel].first = ranks.begin / kRankDepth;
    all[panel].count = (ranks.end - 1) / kRankDepth + 1 - all[panel].first;
  }
  return all;
}

/// Where the number of a rank and a column is among the blocks of its panel, in steps as those of weights.
size_t placeOf(DType dtype, int rank, int lane) {
  if (dtype == DType::F32) return (static_cast<size_t>(rank) * kLanes + lane) * sizeof(float);
  return (static_cast<size_t>(rank / 2) * kLanes + lane) * 2 * sizeof(uint16_t) + rank % 2 * sizeof(uint16_t);
}

void packB(ThreadPool& pool, const KernelSet& set, MatrixMemory& memory, const LoraNumbers& numbers, HostLora& lora) {
  const std::vector<char> stored = storedB(set, numbers);
  const size_t width = elementBytes(numbers.dtype);
  lora.panels = panelsOf(numbers);
  size_t bytes = 0;
  for (const LowRankPanel& panel : lora.panels) bytes += panel.count * blockBytes(numbers.dtype);
  // A matrix tile reads as many ranks again behind the last ones.
  const std::shared_ptr<char> b = memory.take(bytes + blockBytes(numbers.dtype));
  lora.b = b;
  const char* blocks = b.get();
  for (LowRankPanel& panel : lora.panels) {
    panel.blocks = blocks;
    blocks += panel.count * blockBytes(numbers.dtype);
  }
  pool.run(static_cast<int>(lora.panels.size()), [&](int index, int) {
    const LowRankPanel& panel = lora.panels[index];
    char* const to = b.get() + (panel.blocks - b.get());
    eachPartOfPanel(numbers, index, [&](const LoraPart& part, Range columns, size_t rows) {
      const char* number = stored.data() + rows;
      for (int column = columns.begin; column < columns.end; ++column) {
        const int lane = column - columnsOfPanel(numbers, index).begin;
        for (int rank = part.firstRank; rank < part.firstRank + part.ranks; ++rank, number += width) {
          std::memcpy(to + placeOf(numbers.dtype, rank - panel.first * kRankDepth, lane), number, width);
        }
      }
    });
  });
}

/// Rows of a step that one adapter computes, and where their t is.
struct AdapterTask {
  Range rows;
  const HostLora* lora;
  char* t;
  size_t stride;  // bytes

  size_t borderBytes() const { return stride * kRowsBeside; }
  size_t bytes() const { return stride * lengthOf(rows) + 2 * borderBytes(); }
};

size_t strideOf(const HostLora& lora) { return roundUp(lora.rank(), kRankDepth) / kRankDepth * kRankBytes; }

/// Rows that follow each other, of each adapter that adds to the product.
std::vector<AdapterTask> tasksOf(const std::vector<AdapterRows>& adapterRows, const std::vector<AdapterLora>& loras) {
  std::vector<AdapterTask> all;
  for (const AdapterRows& rows : adapterRows) {
    const auto own = std::find_if(loras.begin(), loras.end(), [&](const AdapterLora& one) { return one.adapter == rows.adapter; });
    if (own == loras.end()) continue;
    const auto& lora = static_cast<const HostLora&>(*own->lora);
    all.push_back({{rows.begin, rows.end}, &lora, nullptr, strideOf(lora)});
  }
  return all;
}

/// A row of t in blocks of kRankBytes.
void storeT(const KernelSet& set, DType dtype, const float* t, int ranks, char* to) {
  for (int rank = 0; rank < ranks; rank += kRankDepth, t += kRankDepth, to += kRankBytes) {
    const size_t bytes = kRankDepth * elementBytes(dtype);
    if (dtype == DType::F32) std::memcpy(to, t, bytes);
    else set.narrow(t, reinterpret_cast<uint16_t*>(to), kRankDepth);
    std::memset(to + bytes, 0, kRankBytes - bytes);
  }
}

/// Multiplies `rows` of x by A, and leaves the products, scaled, in the format in which B takes them.
void computeT(const KernelSet& set, const AdapterTask& task, Range rows, Rows x, float* sums) {
  const HostLora& lora = *task.lora;
  const int panels = lora.panelsOfA(), width = panels * kLanes;
  const size_t xStride = static_cast<size_t>(x.stride) * elementBytes(lora.dtype);
  const LinearJob job{x.data + rows.begin * xStride, xStride, lora.a.get(), stepsOf(lora.formatOfA(), lora.k), width, nullptr,
                      sums, static_cast<size_t>(width), false, {}, {}};
  set.linear[static_cast<int>(lora.formatOfA())](job, {0, lengthOf(rows)}, {0, panels});
  for (int row = rows.begin; row < rows.end; ++row, sums += width) {
    for (int i = 0; i < lora.rank(); ++i) sums[i] *= lora.scales[i];
    storeT(set, lora.dtype, sums, width, task.t + (row - task.rows.begin) * task.stride);
  }
}

/// Memory for t of the adapters, and zeros beside it.
void takeMemory(ThreadPool& pool, LoraMemory& memory, std::vector<AdapterTask>& adapters) {
  size_t bytes = 0, sumBytes = 0;
  for (const AdapterTask& adapter : adapters) {
    bytes += adapter.bytes();
    sumBytes = std::max(sumBytes, static_cast<size_t>(adapter.lora->panelsOfA()) * kLanes * sizeof(float) * kRowsOfTask);
  }
  if (memory.t.size() < bytes) memory.t = Pages(bytes);
  memory.sums.resize(pool.threads());
  for (Pages& pages : memory.sums) {
    if (pages.size() < sumBytes) pages = Pages(sumBytes);
  }
  char* free = memory.t.data();
  for (AdapterTask& adapter : adapters) {
    adapter.t = free + adapter.borderBytes();
    std::memset(free, 0, adapter.borderBytes());
    free += adapter.bytes();
    std::memset(free - adapter.borderBytes(), 0, adapter.borderBytes());
  }
}

/// What the adapters add to a product of x: computes t.
LowRank lowRankOf(ThreadPool& pool, const KernelSet& set, LoraMemory& memory, std::vector<AdapterTask> adapters, Rows x) {
  takeMemory(pool, memory, adapters);
  struct Task {
    const AdapterTask* adapter;
    Range rows;
  };
  std::vector<Task> tasks;
  LowRank lowRank;
  for (const AdapterTask& adapter : adapters) {
    lowRank.dtype = adapter.lora->dtype;
    lowRank.adapters.push_back({adapter.rows, adapter.t, adapter.stride, adapter.lora->panels.data()});
    for (int row = adapter.rows.begin; row < adapter.rows.end; row += kRowsOfTask) {
      tasks.push_back({&adapter, {row, std::min(row + kRowsOfTask, adapter.rows.end)}});
    }
  }
  pool.run(static_cast<int>(tasks.size()), [&](int task, int thread) {
    const auto sums = reinterpret_cast<float*>(memory.sums[thread].data());
    computeT(set, *tasks[task].adapter, tasks[task].rows, x, sums);
  });
  return lowRank;
}

}  // namespace

std::shared_ptr<char> MatrixMemory::take(size_t bytes) {
  const size_t whole = roundUp(bytes, kStepBytes);
  if (used_ + whole > pages_->size()) {
    pages_ = std::make_shared<Pages>(std::max(whole, kSharedBytes));
    used_ = 0;
  }
  const std::shared_ptr<char> taken(pages_, pages_->data() + used_);
  used_ += whole;
  return taken;
}

std::shared_ptr<const HostLora> packLora(ThreadPool& pool, const KernelSet& set, MatrixMemory& memory,
                                         const LoraNumbers& numbers) {
  const auto lora = std::make_shared<HostLora>(
      HostLora{{numbers.dtype, numbers.k, numbers.n, numbers.isGateUp}, numbers.scales, {}, {}, {}});
  lora->a = storedA(packA(pool, set, numbers), memory);
  packB(pool, set, memory, numbers, *lora);
  return lora;
}

void runLinearLora(ThreadPool& pool, const KernelSet& set, ProductMemory& products, LoraMemory& memory,
                   const PackedWeight& weight, const std::vector<AdapterRows>& adapterRows,
                   const std::vector<AdapterLora>& loras, Rows x, Rows out, bool add) {
  const LowRank lowRank = lowRankOf(pool, set, memory, tasksOf(adapterRows, loras), x);
  runLinear(pool, set, products, weight, x, out, add, lowRank);
}

void runGateUpLora(ThreadPool& pool, const KernelSet& set, ProductMemory& products, LoraMemory& memory,
                   const PackedWeight& weight, const std::vector<AdapterRows>& adapterRows,
                   const std::vector<AdapterLora>& loras, GatedActivation activation, Rows x, Rows out) {
  const LowRank lowRank = lowRankOf(pool, set, memory, tasksOf(adapterRows, loras), x);
  runGateUp(pool, set, products, weight, activation, x, out, lowRank);
}

}  // namespace svc::cpu
