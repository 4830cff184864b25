// Turns rows of a checkpoint into panels, a panel a task.

#include "cpu/packed_weight.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "cpu/blocks.h"
#include "cpu/finite.h"
#include "cpu/packed_codes.h"
#include "threads/first_failure.h"

namespace svc::cpu {
namespace {

/// A part and the scales of its rows, where it is published as whole numbers.
struct ScaledPart {
  LinearPart part;
  std::vector<float> scales;
};

std::vector<ScaledPart> withScales(const KernelSet& set, const std::vector<LinearPart>& parts) {
  std::vector<ScaledPart> scaled;
  for (const LinearPart& part : parts) {
    scaled.push_back({part, {}});
    if (part.scales.has_value()) scaled.back().scales = readScales(set, *part.scales, part.n);
  }
  return scaled;
}

/// What rows are before they are interleaved: numbers of 2 bits are bytes until then.
WeightFormat formatOfRows(WeightFormat packed) { return packed == WeightFormat::Ternary ? WeightFormat::Int8 : packed; }

/// Rows of one panel as words, [16, steps], before they are interleaved.
class PanelRows {
 public:
  PanelRows(WeightFormat packed, int k)
      : format_(formatOfRows(packed)), k_(k), steps_(stepsOf(format_, k)), words_(static_cast<size_t>(kLanes) * steps_), wide_(k) {}

  /// Columns [first, first + 16), counted over all parts; those after the last part are padding.
  void load(const KernelSet& set, const std::vector<ScaledPart>& parts, int first) {
    int lane = 0, row = first;
    for (const auto& [part, scales] : parts) {
      const int count = std::clamp(part.n - row, 0, kLanes - lane);
      if (part.scales.has_value()) {
        loadWholeRows(part.weight, row, count, lane);
        std::copy_n(scales.begin() + row, count, scales_.begin() + lane);
      } else {
        loadRows(set, part.weight, row, count, lane);
      }
      lane += count;
      row = std::max(0, row - part.n);
    }
    std::fill(words_.begin() + static_cast<size_t>(lane) * steps_, words_.end(), 0u);
    std::fill(scales_.begin() + lane, scales_.end(), 0.0f);
    std::fill(offsets_.begin() + lane, offsets_.end(), 0);
  }

  /// One a lane, of int8.
  const std::array<float, kLanes>& scales() const { return scales_; }
  const std::array<int32_t, kLanes>& offsets() const { return offsets_; }

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

  /// Of bytes from -1 to 1: kTernaryWords words of a row become one.
  void interleaveTernary(uint32_t* panel) const {
    constexpr uint32_t kLowest = 0x03030303;
    for (int step = 0; step < steps_ / kTernaryWords; ++step) {
      for (int lane = 0; lane < kLanes; ++lane) {
        const uint32_t* words = words_.data() + lane * steps_ + step * kTernaryWords;
        uint32_t codes = 0;
        for (int word = 0; word < kTernaryWords; ++word) codes = codes << 2 | (words[word] & kLowest);
        panel[step * kLanes + lane] = codes;
      }
    }
  }

 private:
  void loadRows(const KernelSet& set, const TensorSource& weight, int row, int count, int lane) {
    if (count == 0) return;
    const size_t rowBytes = storedBytes(weight.dtype, k_);
    uint32_t* words = words_.data() + static_cast<size_t>(lane) * steps_;
    const bool isAsPacked = isStored(weight.dtype) && rowBytes == static_cast<size_t>(steps_) * 4;
    if (!isAsPacked) stored_.resize(kLanes * rowBytes);
    void* to = isAsPacked ? static_cast<void*>(words) : stored_.data();
    weight.read(to, row, count, k_);
    for (int i = 0; i < count; ++i, words += steps_) {
      const char* stored = stored_.data() + i * rowBytes;
      if (format_ == WeightFormat::Int8) {
        widenStored(set, weight.dtype, stored, wide_.data(), k_);
        expectFinite(weight, wide_.data(), DType::F32, k_, row + i);
        quantize(set, lane + i, words);
      } else {
        if (!isAsPacked) convert(set, stored, weight.dtype, words);
        expectFinite(weight, words, inputDType(format_), k_, row + i);
      }
    }
  }

  void loadWholeRows(const TensorSource& weight, int row, int count, int lane) {
    stored_.resize(static_cast<size_t>(kLanes) * k_);
    readWholeRows(weight, row, count, k_, blocks_, stored_.data());
    for (int i = 0; i < count; ++i) {
      uint32_t* words = words_.data() + static_cast<size_t>(lane + i) * steps_;
      std::memcpy(words, stored_.data() + static_cast<size_t>(i) * k_, k_);
      offsets_[lane + i] = offsetOf(words);
    }
  }

  bool isStored(DType dtype) const { return format_ != WeightFormat::Int8 && dtype == inputDType(format_); }

  /// The widened row -> signed bytes, their scale and offset.
  void quantize(const KernelSet& set, int lane, uint32_t* words) {
    const auto bytes = reinterpret_cast<uint8_t*>(words);
    const int padded = steps_ * 4;
    scales_[lane] = set.quantize[static_cast<int>(DType::F32)](wide_.data(), k_, padded, bytes);
    for (int i = 0; i < padded; ++i) bytes[i] = static_cast<uint8_t>(bytes[i] - kInt8Zero);
    offsets_[lane] = offsetOf(words);
  }

  int32_t offsetOf(const uint32_t* words) const {
    const auto numbers = reinterpret_cast<const int8_t*>(words);
    return kInt8Zero * std::accumulate(numbers, numbers + k_, int32_t{0});
  }

  /// What pads k stays zero.
  void convert(const KernelSet& set, const char* row, DType dtype, uint32_t* words) {
    if (isStored(dtype)) {
      std::memcpy(words, row, k_ * elementBytes(dtype));
    } else if (format_ == WeightFormat::F32) {
      widenStored(set, dtype, row, reinterpret_cast<float*>(words), k_);
    } else {
      widenStored(set, dtype, row, wide_.data(), k_);
      set.narrow(wide_.data(), reinterpret_cast<uint16_t*>(words), k_);
    }
  }

  WeightFormat format_;
  int k_;
  int steps_;
  std::vector<uint32_t> words_;
  std::array<float, kLanes> scales_ = {};
  std::array<int32_t, kLanes> offsets_ = {};
  std::vector<char> stored_;
  std::vector<char> blocks_;
  std::vector<float> wide_;
};

using PanelParts = std::vector<std::vector<ScaledPart>>;

/// Packs `panels` panels; panel p takes columns of sources[p % count] from 16 * (p / count) on.
PackedWeight pack(ThreadPool& pool, const KernelSet& set, const PanelParts& sources, int panels, int k,
                  WeightFormat format) {
  const size_t panelBytes = static_cast<size_t>(stepsOf(format, k)) * kStepBytes;
  PackedWeight packed{{format, {}, 0, k, false, panelBytes * panels}, panels, Pages(panelBytes * panels), {}, {}, {}, {}};
  const int unit = format == WeightFormat::Ternary ? kTernaryUnit : 1;
  if (isWhole(format)) {
    packed.scales.resize(static_cast<size_t>(panels) * kLanes);
    packed.offsets.resize(static_cast<size_t>(panels) * kLanes);
  }
  const int count = static_cast<int>(sources.size());
  std::vector<PanelRows> scratch(pool.threads(), PanelRows(format, k));
  FirstFailure failure;
  pool.run(panels, [&](int panel, int thread) {
    failure.guard([&] {
      PanelRows& rows = scratch[thread];
      rows.load(set, sources[panel % count], panel / count * kLanes);
      const auto words = reinterpret_cast<uint32_t*>(packed.data.data() + panel * panelBytes);
      if (format == WeightFormat::Ternary) rows.interleaveTernary(words);
      else rows.interleave(words);
      if (!isWhole(format)) return;
      for (int lane = 0, column = panel * kLanes; lane < kLanes; ++lane, ++column) {
        packed.scales[column] = rows.scales()[lane] / static_cast<float>(unit);
        packed.offsets[column] = rows.offsets()[lane] * unit;
      }
    });
  });
  failure.rethrow();
  return packed;
}

/// Whether all are published as numbers from -1 to 1.
bool areTernary(const std::vector<std::vector<LinearPart>>& sources) {
  return std::all_of(sources.begin(), sources.end(), [](const std::vector<LinearPart>& parts) {
    return std::all_of(parts.begin(), parts.end(), [](const LinearPart& part) {
      return part.weight.planeRows != 0 || (part.scales.has_value() && isTernary(part.weight.dtype));
    });
  });
}

PackedWeight packAs(ThreadPool& pool, const KernelSet& set, const std::vector<std::vector<LinearPart>>& sources,
                    int panels, int k, const WeightForm& form) {
  if (form.format == WeightFormat::Codes) return packCodes(pool, set, sources, panels, k, keptCodes(set, sources, form.codes));
  PanelParts scaled;
  for (const std::vector<LinearPart>& parts : sources) scaled.push_back(withScales(set, parts));
  return pack(pool, set, scaled, panels, k, areTernary(sources) ? WeightFormat::Ternary : form.format);
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
                        const WeightForm& form) {
  int n = 0;
  for (const LinearPart& part : parts) n += part.n;
  const int panels = static_cast<int>(roundUp(n, kLanes)) / kLanes;
  PackedWeight packed = packAs(pool, set, {parts}, panels, k, form);
  packed.n = n;
  packed.bias = packBias(set, parts, panels, [](int column) { return column; });
  return packed;
}

PackedWeight packGateUp(ThreadPool& pool, const KernelSet& set, const LinearPart& gate, const LinearPart& up, int k,
                        const WeightForm& form) {
  const int panels = 2 * static_cast<int>(roundUp(gate.n, kLanes)) / kLanes;
  PackedWeight packed = packAs(pool, set, {{gate}, {up}}, panels, k, form);
  packed.n = gate.n;
  packed.isGateUp = true;
  const int n = gate.n;
  packed.bias = packBias(set, {gate, up}, panels, [n](int column) {
    const int inPart = column % n;
    return (2 * (inPart / kLanes) + column / n) * kLanes + inPart % kLanes;
  });
  return packed;
}

namespace {

/// A column's number i of k, as products take it.
int wholeNumberAt(WeightFormat format, const char* column, int i) {
  if (format == WeightFormat::Int8) return static_cast<int8_t>(column[static_cast<size_t>(i / 4) * kStepBytes + i % 4]);
  constexpr int kNumbers = 4 * kTernaryWords;
  const auto byte = static_cast<uint8_t>(column[static_cast<size_t>(i / kNumbers) * kStepBytes + i % 4]);
  return static_cast<int8_t>(byte << (2 * (i % kNumbers / 4)) & 0xc0);
}

}  // namespace

void unpackRow(const PackedWeight& weight, int row, float* out) {
  if (weight.format == WeightFormat::Codes) return unpackCodes(weight, row, out);
  const int steps = stepsOf(weight.format, weight.k);
  const char* words = weight.data.data() + static_cast<size_t>(row / kLanes) * steps * kStepBytes + row % kLanes * 4;
  if (isWhole(weight.format)) {
    for (int i = 0; i < weight.k; ++i) out[i] = static_cast<float>(wholeNumberAt(weight.format, words, i)) * weight.scales[row];
    return;
  }
  for (int i = 0; i < weight.k; ++i) {
    uint32_t bits;
    if (weight.format == WeightFormat::F32) {
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
