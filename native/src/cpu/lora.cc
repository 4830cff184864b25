// An adapter's rows are neighbours in a step, so that each of its matrices is one operand of the kernels of all products.

#include "cpu/lora.h"

#include <algorithm>
#include <cstring>

namespace svc::cpu {
namespace {

/// Rows of x that a task multiplies by the small matrices.
constexpr int kRowsOfTask = 32;

TensorSource sourceOf(const char* name, std::vector<float> numbers, int64_t rowLength) {
  TensorSource source{nullptr, name, 0, DType::F32, rowLength, 0, 0, 0};
  source.numbers = std::make_shared<const std::vector<float>>(std::move(numbers));
  return source;
}

PackedWeight packNumbers(ThreadPool& pool, const KernelSet& set, const char* name, std::vector<float> numbers, int k,
                         const WeightForm& form) {
  const int n = static_cast<int>(numbers.size()) / k;
  return packLinear(pool, set, {LinearPart{sourceOf(name, std::move(numbers), k), n, {}, {}, {}}}, k, form);
}

/// B in the panels of the product: before its first column, the panel has columns of zeros.
PackedWeight packB(ThreadPool& pool, const KernelSet& set, const LoraNumbers& numbers, const WeightForm& form) {
  const auto begin = numbers.b.begin(), end = numbers.b.end();
  const int rank = numbers.rank;
  if (numbers.isGateUp) {
    const auto middle = begin + (end - begin) / 2;
    const int n = static_cast<int>((middle - begin) / rank);
    const LinearPart gate{sourceOf("lora_B", {begin, middle}, rank), n, {}, {}, {}};
    const LinearPart up{sourceOf("lora_B", {middle, end}, rank), n, {}, {}, {}};
    return packGateUp(pool, set, gate, up, rank, form);
  }
  std::vector<float> columns(static_cast<size_t>(numbers.firstColumn % kLanes) * rank, 0.0f);
  columns.insert(columns.end(), begin, end);
  return packNumbers(pool, set, "lora_B", std::move(columns), rank, form);
}

size_t lowRankBytes(const HostLora& lora) {
  return static_cast<size_t>(paddedCols(lora.dtype, lora.a.n)) * elementBytes(lora.dtype);
}

Range common(Range a, Range b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }
bool isEmpty(Range range) { return range.begin >= range.end; }
int lengthOf(Range range) { return range.end - range.begin; }

LinearJob jobOf(const PackedWeight& weight, const char* x, size_t xStride, float* out, size_t outStride, bool add) {
  return {x, xStride, weight.data.data(), stepsOf(weight.format, weight.k), weight.panels * kLanes, nullptr, out, outStride,
          add, {}, {}};
}

/// Rows, beside each other, of one adapter, for each of its parts of the product.
std::vector<LoraRows> rowsOf(const std::vector<AdapterRows>& adapterRows, const std::vector<AdapterLora>& loras) {
  std::vector<LoraRows> all;
  for (const AdapterRows& rows : adapterRows) {
    for (const AdapterLora& one : loras) {
      if (one.adapter != rows.adapter) continue;
      const auto& lora = static_cast<const HostLora&>(*one.lora);
      all.push_back({{rows.begin, rows.end}, &lora, nullptr, lowRankBytes(lora)});
    }
  }
  return all;
}

/// Multiplies `rows` of x by A, and leaves the products, scaled, in the format in which B takes them.
void computeLowRank(const KernelSet& set, const LoraRows& part, Range rows, Rows x, float* sums) {
  const HostLora& lora = *part.lora;
  const PackedWeight& a = lora.a;
  const size_t xStride = static_cast<size_t>(x.stride) * elementBytes(lora.dtype);
  const int width = a.panels * kLanes;
  const LinearJob job = jobOf(a, x.data + rows.begin * xStride, xStride, sums, width, false);
  set.linear[static_cast<int>(a.format)](job, {0, lengthOf(rows)}, {0, a.panels});
  for (int row = rows.begin; row < rows.end; ++row, sums += width) {
    for (int i = 0; i < a.n; ++i) sums[i] *= lora.scales[i];
    char* to = part.lowRank + (row - part.rows.begin) * part.stride;
    if (lora.dtype == DType::F32) {
      std::memcpy(to, sums, part.stride);
      continue;
    }
    const size_t written = static_cast<size_t>(a.n) * sizeof(uint16_t);
    set.narrow(sums, reinterpret_cast<uint16_t*>(to), a.n);
    std::memset(to + written, 0, part.stride - written);
  }
}

/// What the adapters of a step add to one product.
class LoraAddend final : public Addend {
 public:
  LoraAddend(ThreadPool& pool, const KernelSet& set, LoraMemory& memory, std::vector<LoraRows> parts, Rows x)
      : set_(set), parts_(std::move(parts)) {
    takeMemory(pool, memory);
    struct Task {
      const LoraRows* part;
      Range rows;
    };
    std::vector<Task> tasks;
    for (const LoraRows& part : parts_) {
      for (int row = part.rows.begin; row < part.rows.end; row += kRowsOfTask) {
        tasks.push_back({&part, {row, std::min(row + kRowsOfTask, part.rows.end)}});
      }
    }
    pool.run(static_cast<int>(tasks.size()), [&](int task, int thread) {
      const auto sums = reinterpret_cast<float*>(memory.sums[thread].data());
      computeLowRank(set, *tasks[task].part, tasks[task].rows, x, sums);
    });
  }

  void addTo(Range rows, Range panels, float* out, size_t stride) const override {
    for (const LoraRows& part : parts_) {
      const PackedWeight& b = part.lora->b;
      const int first = part.lora->firstPanel;
      const Range ownRows = common(rows, part.rows), ownPanels = common(panels, {first, first + b.panels});
      if (isEmpty(ownRows) || isEmpty(ownPanels)) continue;
      const char* x = part.lowRank + (ownRows.begin - part.rows.begin) * part.stride;
      float* to = out + (ownRows.begin - rows.begin) * stride + (ownPanels.begin - panels.begin) * kLanes;
      LinearJob job = jobOf(b, x, part.stride, to, stride, true);
      const int skipped = ownPanels.begin - first;
      job.panels += skipped * (b.bytes / b.panels);
      // Gate and up are added to in whole panels.
      job.n = (b.isGateUp ? b.panels * kLanes : b.n) - skipped * kLanes;
      set_.linear[static_cast<int>(b.format)](job, {0, lengthOf(ownRows)}, {0, lengthOf(ownPanels)});
    }
  }

 private:
  const KernelSet& set_;
  std::vector<LoraRows> parts_;

  void takeMemory(ThreadPool& pool, LoraMemory& memory) {
    size_t bytes = 0, sumBytes = 0;
    for (const LoraRows& part : parts_) {
      bytes += part.stride * lengthOf(part.rows);
      sumBytes = std::max(sumBytes, static_cast<size_t>(part.lora->a.panels) * kLanes * sizeof(float) * kRowsOfTask);
    }
    if (memory.lowRank.size() < bytes) memory.lowRank = Pages(bytes);
    memory.sums.resize(pool.threads());
    for (Pages& pages : memory.sums) {
      if (pages.size() < sumBytes) pages = Pages(sumBytes);
    }
    char* free = memory.lowRank.data();
    for (LoraRows& part : parts_) {
      part.lowRank = free;
      free += part.stride * lengthOf(part.rows);
    }
  }
};

}  // namespace

std::shared_ptr<const HostLora> packLora(ThreadPool& pool, const KernelSet& set, const LoraNumbers& numbers) {
  const WeightForm form{numbers.dtype == DType::F32 ? WeightFormat::F32 : WeightFormat::Bf16, {}};
  const int n = static_cast<int>(numbers.b.size()) / numbers.rank / (numbers.isGateUp ? 2 : 1);
  return std::make_shared<const HostLora>(HostLora{
      {numbers.dtype, numbers.k, numbers.isGateUp, numbers.firstColumn, n},
      packNumbers(pool, set, "lora_A", numbers.a, numbers.k, form),
      packB(pool, set, numbers, form),
      numbers.firstColumn / kLanes,
      numbers.scales});
}

void runLinearLora(ThreadPool& pool, const KernelSet& set, ProductMemory& products, LoraMemory& memory,
                   const PackedWeight& weight, const std::vector<AdapterRows>& adapterRows,
                   const std::vector<AdapterLora>& loras, Rows x, Rows out, bool add) {
  const LoraAddend addend(pool, set, memory, rowsOf(adapterRows, loras), x);
  runLinear(pool, set, products, weight, x, out, add, &addend);
}

void runGateUpLora(ThreadPool& pool, const KernelSet& set, ProductMemory& products, LoraMemory& memory,
                   const PackedWeight& weight, const std::vector<AdapterRows>& adapterRows,
                   const std::vector<AdapterLora>& loras, GatedActivation activation, Rows x, Rows out) {
  const LoraAddend addend(pool, set, memory, rowsOf(adapterRows, loras), x);
  runGateUp(pool, set, products, weight, activation, x, out, &addend);
}

}  // namespace svc::cpu
