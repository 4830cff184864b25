// Turns rows of a checkpoint into panels, a panel a task.

#include "cpu/packed_weight.h"

#include <algorithm>
#include <cstring>

namespace svc::cpu {
namespace {

/// Where the sixteen columns of a panel come from; null is a column of padding.
struct PanelSource {
  const char* rows[kLanes];
  DType dtype[kLanes];
};

/// Columns [first, first + 16) of the part that holds them, counted over all parts.
PanelSource sourceOf(const std::vector<WeightPart>& parts, int first, int k) {
  PanelSource source{};
  for (int i = 0; i < kLanes; ++i) {
    int row = first + i;
    for (const WeightPart& part : parts) {
      if (row < part.n) {
        source.rows[i] = part.weight + static_cast<size_t>(row) * k * elementBytes(part.dtype);
        source.dtype[i] = part.dtype;
        break;
      }
      row -= part.n;
    }
  }
  return source;
}

/// Rows of one panel as words of the packed format, [16, steps], before they are interleaved.
class PanelRows {
 public:
  PanelRows(DType dtype, int k)
      : dtype_(dtype), k_(k), steps_(stepsOf(dtype, k)), words_(static_cast<size_t>(kLanes) * steps_), wide_(k) {}

  void load(const KernelSet& set, const PanelSource& source) {
    std::fill(words_.begin(), words_.end(), 0u);
    for (int i = 0; i < kLanes; ++i) {
      if (source.rows[i] != nullptr) loadRow(set, source.rows[i], source.dtype[i], words_.data() + i * steps_);
    }
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
  void loadRow(const KernelSet& set, const char* row, DType dtype, uint32_t* words) {
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
  std::vector<float> wide_;
};

using PanelParts = std::vector<std::vector<WeightPart>>;

/// Packs `panels` panels; panel p takes columns of sources[p % count] from 16 * (p / count) on.
PackedWeight pack(ThreadPool& pool, const KernelSet& set, const PanelParts& sources, int panels, int k, DType dtype) {
  const size_t panelBytes = static_cast<size_t>(stepsOf(dtype, k)) * kStepBytes;
  PackedWeight packed{dtype, 0, k, panels, false, Pages(panelBytes * panels), {}};
  const int count = static_cast<int>(sources.size());
  std::vector<PanelRows> scratch(pool.threads(), PanelRows(dtype, k));
  pool.run(panels, [&](int panel, int thread) {
    scratch[thread].load(set, sourceOf(sources[panel % count], panel / count * kLanes, k));
    scratch[thread].interleave(reinterpret_cast<uint32_t*>(packed.data.data() + panel * panelBytes));
  });
  return packed;
}

/// bias[place(column)] of each part that has one; the others stay 0.
template <class Place>
std::vector<float> packBias(const KernelSet& set, const std::vector<WeightPart>& parts, int panels, Place place) {
  std::vector<float> bias;
  int column = 0;
  for (const WeightPart& part : parts) {
    if (part.bias != nullptr) {
      bias.resize(static_cast<size_t>(panels) * kLanes, 0.0f);
      std::vector<float> values(part.n);
      set.widen[static_cast<int>(part.biasDType)](part.bias, values.data(), part.n);
      for (int i = 0; i < part.n; ++i) bias[place(column + i)] = values[i];
    }
    column += part.n;
  }
  return bias;
}

}  // namespace

PackedWeight packLinear(ThreadPool& pool, const KernelSet& set, const std::vector<WeightPart>& parts, int k,
                        DType dtype) {
  int n = 0;
  for (const WeightPart& part : parts) n += part.n;
  const int panels = static_cast<int>(roundUp(n, kLanes)) / kLanes;
  PackedWeight packed = pack(pool, set, {parts}, panels, k, dtype);
  packed.n = n;
  packed.bias = packBias(set, parts, panels, [](int column) { return column; });
  return packed;
}

PackedWeight packGated(ThreadPool& pool, const KernelSet& set, const WeightPart& gate, const WeightPart& up, int k,
                       DType dtype) {
  const int panels = 2 * static_cast<int>(roundUp(gate.n, kLanes)) / kLanes;
  PackedWeight packed = pack(pool, set, {{gate}, {up}}, panels, k, dtype);
  packed.n = gate.n;
  packed.isGated = true;
  const int n = gate.n;
  packed.bias = packBias(set, {gate, up}, panels, [n](int column) {
    const int inPart = column % n;
    return (2 * (inPart / kLanes) + column / n) * kLanes + inPart % kLanes;
  });
  return packed;
}

}  // namespace svc::cpu
