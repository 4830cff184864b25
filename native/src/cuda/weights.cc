// Some megabytes of rows, or of panels of codes, are read, converted and copied at a time: the host never holds a whole weight.

#include "cuda/weights.h"

#include <algorithm>
#include <numeric>

#include "cpu/code_panel.h"
#include "cpu/blocks.h"
#include "cpu/finite.h"
#include "cuda/halves.h"

namespace svc::cuda {
namespace {

constexpr int kPieceNumbers = 16;

size_t numberBytes(WeightFormat format) { return format == WeightFormat::F32 ? 4 : format == WeightFormat::Int8 ? 1 : 2; }

/// Calls use(part, row of the part, row of all) for each row.
template <class Use>
void eachRow(const std::vector<LinearPart>& parts, const Use& use) {
  int row = 0;
  for (const LinearPart& part : parts) {
    for (int i = 0; i < part.n; ++i) use(part, i, row++);
  }
}

/// Reads rows of parts as the numbers of a format without codes.
class RowReader {
 public:
  RowReader(const cpu::KernelSet& set, WeightFormat format, DType half, int k)
      : set_(set), format_(format), half_(half), k_(k), wide_(k), shifted_(roundUp(k, cpu::kInt8Depth)) {}

  /// Returns the scale of int8.
  float read(const LinearPart& part, int row, char* to) {
    const TensorSource& source = part.weight;
    if (part.scales.has_value()) {
      cpu::readWholeRows(source, row, 1, k_, stored_, to);
      return scalesOf(part)[row];
    }
    stored_.resize(storedBytes(source.dtype, k_));
    source.read(stored_.data(), row, 1, k_);
    if (source.dtype == half_ && format_ == WeightFormat::Half) {
      std::copy(stored_.begin(), stored_.end(), to);
      cpu::expectFinite(source, to, half_, k_, row);
      return 1.0f;
    }
    cpu::widenStored(set_, source.dtype, stored_.data(), wide_.data(), k_);
    if (format_ == WeightFormat::Half) {
      toHalves(set_, half_, wide_.data(), reinterpret_cast<uint16_t*>(to), k_);
      cpu::expectFinite(source, to, half_, k_, row);
      return 1.0f;
    }
    cpu::expectFinite(source, wide_.data(), DType::F32, k_, row);
    if (format_ == WeightFormat::Int8) return quantize(to);
    std::copy(wide_.begin(), wide_.end(), reinterpret_cast<float*>(to));
    return 1.0f;
  }

 private:
  float quantize(char* to) {
    const float scale = set_.quantize[static_cast<int>(DType::F32)](wide_.data(), k_, static_cast<int>(shifted_.size()), shifted_.data());
    std::transform(shifted_.begin(), shifted_.begin() + k_, to, [](uint8_t code) { return static_cast<char>(code - cpu::kInt8Zero); });
    return scale;
  }

  const std::vector<float>& scalesOf(const LinearPart& part) {
    if (scaled_ != &part) scales_ = cpu::readScales(set_, *part.scales, part.n);
    scaled_ = &part;
    return scales_;
  }

  const cpu::KernelSet& set_;
  const WeightFormat format_;
  const DType half_;
  const int k_;
  std::vector<char> stored_;
  std::vector<float> wide_;
  std::vector<uint8_t> shifted_;
  const LinearPart* scaled_ = nullptr;
  std::vector<float> scales_;
};

/// What the kernels read of a weight of `format`, but for its address, and the bytes of a panel.
CodedWeight codedWeight(const CodeFormat& format, int k) {
  const int floats = cpu::piecesOf(k, cpu::floatSize(format)), fours = cpu::piecesOf(cpu::piecesOf(k, format.groupSize), 4);
  const bool hasOffsets = format.offset != CodeOffset::None;
  CodedWeight coded{};
  coded.meaning = static_cast<Meaning>(format.kind);
  coded.groupSize = format.groupSize;
  coded.hasMinimums = format.offset == CodeOffset::Minimum ? 1 : 0;
  int bytes = cpu::piecesOf(k, kPieceNumbers) * kPanelRows * kPieceNumbers * codeBits(format.kind) / 8;
  const auto take = [&](int words) {
    const int begin = bytes;
    bytes += words * kPanelRows * 4;
    return begin;
  };
  coded.scales = take(floats);
  if (hasOffsets) coded.offsets = take(floats);
  if (format.hasByteScales) coded.scaleBytes = take(fours);
  if (format.hasByteScales && hasOffsets) coded.offsetBytes = take(fours);
  coded.panelBytes = bytes;
  return coded;
}

/// Writes the lanes of `rows` to a panel, each to a row of its own.
class PanelWriter {
 public:
  PanelWriter(const CodeFormat& format, const CodedWeight& coded, int k, char* panel)
      : format_(format),
        coded_(coded),
        pieces_(cpu::piecesOf(k, kPieceNumbers)),
        floats_(cpu::piecesOf(k, cpu::floatSize(format))),
        panel_(panel) {}

  void write(const cpu::CodePanel& rows, int lane, int row) const {
    const int pieceBytes = kPieceNumbers * codeBits(format_.kind) / 8;
    for (int piece = 0; piece < pieces_; ++piece) {
      char* const to = panel_ + (piece * kPanelRows + row) * pieceBytes;
      const uint8_t* codes = rows.codes(lane) + piece * kPieceNumbers;
      for (int i = 0; i < pieceBytes; ++i) {
        to[i] = static_cast<char>(codeBits(format_.kind) == 8 ? codes[i] : codes[2 * i] | codes[2 * i + 1] << 4);
      }
    }
    for (int i = 0; i < floats_; ++i) {
      at<float>(coded_.scales, i, row) = rows.scales(i)[lane];
      if (coded_.offsets != 0) at<float>(coded_.offsets, i, row) = rows.offsets(i)[lane];
    }
    if (coded_.scaleBytes == 0) return;
    for (int group = 0; group < rows.groups(); ++group) {
      (&at<int8_t>(coded_.scaleBytes, group / 4, row))[group % 4] = rows.scaleBytes(group)[lane];
      if (coded_.offsetBytes != 0) (&at<int8_t>(coded_.offsetBytes, group / 4, row))[group % 4] = rows.offsetBytes(group)[lane];
    }
  }

 private:
  /// The first T in word `word` of a row.
  template <class T>
  T& at(int begin, int word, int row) const {
    return *reinterpret_cast<T*>(panel_ + begin + (word * kPanelRows + row) * 4);
  }

  const CodeFormat& format_;
  const CodedWeight& coded_;
  const int pieces_;
  const int floats_;
  char* const panel_;
};

}  // namespace

int64_t DeviceWeight::stride() const {
  // Rows of bytes are read as pairs.
  return format == WeightFormat::Int8 ? 2 * weightStride(ceilDiv(k, 2)) : weightStride(k);
}

void DeviceWeight::describe(LinearParams& params) const {
  params.codes = coded;
  params.weightStride = stride();
  params.bias = bias.bytes() == 0 ? nullptr : bias.at<float>();
  params.n = rows;
  params.k = k;
  params.segments = segments;
  if (format == WeightFormat::F32) params.f32 = numbers.at<float>();
  else params.weight = numbers.at<uint16_t>();
  if (format != WeightFormat::Int8) return;
  params.columnScales = scales.at<float>();
  params.weightStride /= 2;
  params.k = ceilDiv(k, 2);
}

WeightLoader::WeightLoader(const Device& device, DType half)
    : device_(device), conversions_(cpu::kernelSet(cpu::availableSets().front())), half_(half), upload_(device) {}

DeviceWeight WeightLoader::linear(const std::vector<LinearPart>& parts, int k, const WeightForm& form, bool splitsK,
                                  StreamHandle stream) {
  const int n = std::accumulate(parts.begin(), parts.end(), 0, [](int sum, const LinearPart& part) { return sum + part.n; });
  return load({form.format, form.codes, n, k, false, 0}, n, splitsK ? segmentsOf(k) : 1, {{parts, [](int row) { return row; }}}, stream);
}

DeviceWeight WeightLoader::gateUp(const LinearPart& gate, const LinearPart& up, int k, const WeightForm& form,
                                  StreamHandle stream) {
  return load({form.format, form.codes, gate.n, k, true, 0}, gateUpRows(gate.n), 1,
              {{{gate}, [](int row) { return gateUpRow(row); }}, {{up}, [](int row) { return gateUpRow(row) + 8; }}}, stream);
}

DeviceWeight WeightLoader::load(Weight weight, int rows, int segments, const std::vector<Published>& published,
                                StreamHandle stream) {
  DeviceWeight loaded{weight, rows, segments, {}, biasOf(rows, published, stream), {}, {}, {}};
  if (weight.format == WeightFormat::Codes) loadCodes(loaded, published, stream);
  else loadRows(loaded, published, stream);
  loaded.bytes = loaded.numbers.bytes();
  return loaded;
}

void WeightLoader::loadRows(DeviceWeight& weight, const std::vector<Published>& published, StreamHandle stream) {
  struct Row {
    const LinearPart* part;
    int row;
  };
  std::vector<Row> rows(weight.rows, Row{nullptr, 0});
  for (const auto& [parts, place] : published) {
    eachRow(parts, [&](const LinearPart& part, int row, int all) { rows[place(all)] = {&part, row}; });
  }
  const size_t rowBytes = static_cast<size_t>(weight.stride()) * numberBytes(weight.format);
  weight.numbers = DeviceMemory(device_, rowBytes * weight.rows);
  std::vector<float> scales(weight.rows, 0.0f);
  std::vector<RowReader> readers(upload_.threads(), RowReader(conversions_, weight.format, half_, weight.k));
  upload_.run(weight.numbers.address(), rowBytes, weight.rows, stream, [&](int i, int thread, char* to) {
    const auto [part, row] = rows[i];
    if (part != nullptr) scales[i] = readers[thread].read(*part, row, to);
  });
  if (weight.format == WeightFormat::Int8) weight.scales = copied(scales, stream);
}

void WeightLoader::loadCodes(DeviceWeight& weight, const std::vector<Published>& published, StreamHandle stream) {
  weight.coded = codedWeight(weight.codes, weight.k);
  const auto panelBytes = static_cast<size_t>(weight.coded.panelBytes);
  const int panels = ceilDiv(weight.rows, kPanelRows), shares = static_cast<int>(published.size());
  weight.numbers = DeviceMemory(device_, panelBytes * panels);
  weight.coded.panels = weight.numbers.at<char>();
  std::vector<std::vector<cpu::CodesSource>> sources;
  for (const Published& one : published) sources.push_back(cpu::openCodes(one.parts, weight.k, weight.codes.kind));
  const std::optional<StoredCodes>& stored = published.front().parts.front().codes;
  if (stored.has_value() && !stored->columns.empty()) weight.columns = copied(stored->columns, stream);
  std::vector<cpu::CodePanel> read(upload_.threads(), cpu::CodePanel(weight.codes, weight.k));
  upload_.run(weight.numbers.address(), panelBytes, panels, stream, [&](int i, int thread, char* to) {
    const PanelWriter writer(weight.codes, weight.coded, weight.k, to);
    cpu::CodePanel& rows = read[thread];
    for (int share = 0; share < shares; ++share) {
      const int firstRow = i * kPanelRows / shares, endRow = firstRow + kPanelRows / shares;
      for (int first = firstRow; first < endRow; first += cpu::kLanes) {
        rows.load(conversions_, sources[share], first);
        for (int lane = 0; lane < cpu::kLanes; ++lane) writer.write(rows, lane, published[share].place(first + lane) % kPanelRows);
      }
    }
  });
}

DeviceMemory WeightLoader::biasOf(int rows, const std::vector<Published>& published, StreamHandle stream) const {
  std::vector<float> bias;
  for (const auto& [parts, place] : published) {
    int first = 0;
    for (const LinearPart& part : parts) {
      if (part.bias.has_value()) {
        bias.resize(rows, 0.0f);
        const std::vector<float> values = cpu::readVector(conversions_, *part.bias, part.n);
        for (int i = 0; i < part.n; ++i) bias[place(first + i)] = values[i];
      }
      first += part.n;
    }
  }
  return bias.empty() ? DeviceMemory() : copied(bias, stream);
}

DeviceVector WeightLoader::vector(const TensorSource& source, int64_t length, StreamHandle stream) const {
  return vector(cpu::readVector(conversions_, source, length), stream);
}

DeviceVector WeightLoader::vector(const std::vector<float>& values, StreamHandle stream) const {
  return {{static_cast<int64_t>(values.size())}, copied(values, stream)};
}

template <class T>
DeviceMemory WeightLoader::copied(const std::vector<T>& values, StreamHandle stream) const {
  DeviceMemory memory(device_, values.size() * sizeof(T));
  const Driver& driver = device_.driver();
  if (!values.empty()) {
    driver.check(driver.cuMemcpyHtoDAsync_v2(memory.address(), values.data(), memory.bytes(), stream), "copy to its memory");
  }
  return memory;
}

}  // namespace svc::cuda
