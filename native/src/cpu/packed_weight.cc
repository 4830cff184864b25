// Turns rows of a checkpoint into panels, a panel a task.

#include "cpu/packed_weight.h"

#include <algorithm>
#include <cstring>

#include "cpu/finite.h"
#include "threads/first_failure.h"

namespace svc::cpu {
namespace {

/// Rows of one panel as words of the packed format, [16, steps], before they are interleaved.
class PanelRows {
 public:
  PanelRows(DType dtype, int k)
      : dtype_(dtype), k_(k), steps_(stepsOf(dtype, k)), words_(static_cast<size_t>(kLanes) * steps_), wide_(k) {}

  /// Columns [first, first + 16), counted over all parts; those after the last part are padding.
  void load(const KernelSet& set, const std::vector<LinearPart>& parts, int first) {
    int lane = 0, row = first;
    for (const LinearPart& part : parts) {
      const int count = std::clamp(part.n - row, 0, kLanes - lane);
      loadRows(set, part.weight, row, count, lane);
      lane += count;
      row = std::max(0, row - part.n);
    }
    std::fill(words_.begin() + static_cast<size_t>(lane) * steps_, words_.end(), 0u);
  }

  void interleave(uint32_t* panel) const {
    constexpr int kBlock = 16;
    for (int begin = 0; begin < steps_; begin += kBlock) {
      const int end = std::min(begin + kBlock, steps_);
      for (int lane = 0; lane < kLanes; ++lane) {
        const uint32_t* row = words_.data() + lane * steps_;
        for (int step = begin; step < end; ++step) panel[step * kLanes + lane] = row[step];
      }
    }
  }

 private:
  void loadRows(const KernelSet& set, const TensorSource& weight, int row, int count, int lane) {
    if (count == 0) return;
    const size_t rowBytes = k_ * elementBytes(weight.dtype);
    uint32_t* words = words_.data() + static_cast<size_t>(lane) * steps_;
    const bool isAsPacked = weight.dtype == dtype_ && rowBytes == static_cast<size_t>(steps_) * 4;
    if (!isAsPacked) stored_.resize(kLanes * rowBytes);
    void* to = isAsPacked ? static_cast<void*>(words) : stored_.data();
    weight.read(to, row, count, k_);
    for (int i = 0; i < count; ++i, words += steps_) {
      if (!isAsPacked) convert(set, stored_.data() + i * rowBytes, weight.dtype, words);
      expectFinite(weight, words, dtype_, k_, row + i);
    }
  }

  /// What pads k stays zero.
  void convert(const KernelSet& set, const char* row, DType dtype, uint32_t* words) {
    if (dtype == dtype_) {
      std::memcpy(words, row, k_ * elementBytes(dtype));
    } else if (dtype_ == DType::F32) {
      set.widen[static_cast<int>(dtype)](row, reinterpret_cast<float*>(words), k_);
    } else {
      set.widen[static_cast<int>(dtype)](row, wide_.data(), k_);
      set.narrow(wide_.data(), reinterpret_cast<uint16_t*>(words), k_);
    }
  }

  DType dtype_;
  int k_;
  int steps_;
  std::vector<uint32_t> words_;
  std::vector<char> stored_;
  std::vector<float> wide_;
};

using PanelParts = std::vector<std::vector<LinearPart>>;

/// Packs `panels` panels; panel p takes columns of sources[p % count] from 16 * (p / count) on.
PackedWeight pack(ThreadPool& pool, const KernelSet& set, const PanelParts& sources, int panels, int k, DType dtype) {
  const size_t panelBytes = static_cast<size_t>(stepsOf(dtype, k)) * kStepBytes;
  PackedWeight packed{{dtype, 0, k, false, panelBytes * panels}, panels, Pages(panelBytes * panels), {}};
  const int count = static_cast<int>(sources.size());
  std::vector<PanelRows> scratch(pool.threads(), PanelRows(dtype, k));
  FirstFailure failure;
  pool.run(panels, [&](int panel, int thread) {
    failure.guard([&] {
      scratch[thread].load(set, sources[panel % count], panel / count * kLanes);
      scratch[thread].interleave(reinterpret_cast<uint32_t*>(packed.data.data() + panel * panelBytes));
    });
  });
  failure.rethrow();
  return packed;
}

/// bias[place(column)] of each part that has one; the others stay 0.
template <class Place>
std::vector<float> packBias(const KernelSet& set, const std::vector<LinearPart>& parts, int panels, Place place) {
  std::vector<float> bias;
  int column = 0;
  for (const LinearPart& part : parts) {
    if (part.bias.has_value()) {
      bias.resize(static_cast<size_t>(panels) * kLanes, 0.0f);
      const std::vector<float> values = readVector(set, *part.bias, part.n);
      for (int i = 0; i < part.n; ++i) bias[place(column + i)] = values[i];
    }
    column += part.n;
  }
  return bias;
}

}  // namespace

PackedWeight packLinear(ThreadPool& pool, const KernelSet& set, const std::vector<LinearPart>& parts, int k,
                        DType dtype) {
  int n = 0;
  for (const LinearPart& part : parts) n += part.n;
  const int panels = static_cast<int>(roundUp(n, kLanes)) / kLanes;
  PackedWeight packed = pack(pool, set, {parts}, panels, k, dtype);
  packed.n = n;
  packed.bias = packBias(set, parts, panels, [](int column) { return column; });
  return packed;
}

PackedWeight packGateUp(ThreadPool& pool, const KernelSet& set, const LinearPart& gate, const LinearPart& up, int k,
                       DType dtype) {
  const int panels = 2 * static_cast<int>(roundUp(gate.n, kLanes)) / kLanes;
  PackedWeight packed = pack(pool, set, {{gate}, {up}}, panels, k, dtype);
  packed.n = gate.n;
  packed.isGateUp = true;
  const int n = gate.n;
  packed.bias = packBias(set, {gate, up}, panels, [n](int column) {
    const int inPart = column % n;
    return (2 * (inPart / kLanes) + column / n) * kLanes + inPart % kLanes;
  });
  return packed;
}

void unpackRow(const PackedWeight& weight, int row, float* out) {
  const int steps = stepsOf(weight.dtype, weight.k);
  const char* words = weight.data.data() + static_cast<size_t>(row / kLanes) * steps * kStepBytes + row % kLanes * 4;
  for (int i = 0; i < weight.k; ++i) {
    uint32_t bits;
    if (weight.dtype == DType::F32) {
      std::memcpy(&bits, words + static_cast<size_t>(i) * kStepBytes, 4);
    } else {
      uint16_t upper;
      std::memcpy(&upper, words + static_cast<size_t>(i / 2) * kStepBytes + i % 2 * 2, 2);
      bits = uint32_t{upper} << 16;
    }
    std::memcpy(out + i, &bits, 4);
  }
}

}  // namespace svc::cpu
