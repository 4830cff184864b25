// Published codes, or numbers that are quantised here, to panels of codes; a panel a task.

#include "cpu/packed_codes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "cpu/blocks.h"
#include "cpu/e4m3.h"
#include "cpu/finite.h"
#include "threads/first_failure.h"

namespace svc::cpu {
namespace {

/// The largest size of a row whose scale would be no normal number, and that counts as zero.
constexpr float kFp8Least = 0x1p-100f;

bool isOf4Bits(CodeKind kind) { return codeBits(kind) == 4; }
/// Pieces of k of so many numbers.
int piecesOf(int k, int size) { return static_cast<int>(roundUp(k, size)) / size; }

/// The code of zero.
uint8_t codeOfZero(CodeKind kind) { return kind == CodeKind::Int4 ? 8 : 0; }

float meaningOf(CodeKind kind, uint8_t code) {
  if (kind == CodeKind::Int8) return static_cast<float>(static_cast<int8_t>(code));
  return kind == CodeKind::Fp8 ? fromE4m3(code) : kMeanings[meaningsOf(kind)][code];
}

/// The nearest number of bf16, in f32; ties to even.
float roundToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u);
}

/// The bytes of a part whose rows are not those of the weight: all of them, since a panel needs some of each row.
struct SourcePart {
  const LinearPart* part;
  std::vector<char> bytes;
};

std::vector<SourcePart> opened(const std::vector<LinearPart>& parts, int k, CodeKind kind) {
  std::vector<SourcePart> sources;
  for (const LinearPart& part : parts) {
    SourcePart& source = sources.emplace_back(SourcePart{&part, {}});
    if (!part.codes.has_value() || part.codes->order == CodeOrder::Rows) continue;
    const int64_t rowBytes = part.codes->order == CodeOrder::Columns ? int64_t{part.n} * 4 : int64_t{part.n} / 8 * 4;
    const int64_t rows = int64_t{part.n} * k * codeBits(kind) / 8 / rowBytes;
    source.bytes.resize(static_cast<size_t>(rows * rowBytes));
    part.weight.read(source.bytes.data(), 0, rows, rowBytes);
  }
  return sources;
}

/// Codes of the 16 columns of a panel and what their headers have, before they are interleaved.
class CodePanel {
 public:
  CodePanel(const CodeFormat& format, int k)
      : format_(format),
        k_(k),
        paddedK_(static_cast<int>(roundUp(k, kBf16Depth))),
        headers_(piecesOf(k, headedSize(format))),
        groups_(piecesOf(k, format.groupSize)),
        codes_(static_cast<size_t>(kLanes) * paddedK_),
        scales_(static_cast<size_t>(headers_) * kLanes),
        offsets_(scales_.size()),
        scaleBytes_(static_cast<size_t>(groups_) * kLanes),
        offsetBytes_(scaleBytes_.size()),
        row_(paddedK_) {}

  /// Columns [first, first + 16), counted over all parts; those after the last part are padding.
  void load(const KernelSet& set, const std::vector<SourcePart>& sources, int first) {
    std::fill(codes_.begin(), codes_.end(), codeOfZero(format_.kind));
    std::fill(scales_.begin(), scales_.end(), 0.0f);
    std::fill(offsets_.begin(), offsets_.end(), 0.0f);
    int lane = 0, row = first;
    for (const SourcePart& source : sources) {
      const LinearPart& part = *source.part;
      const int count = std::clamp(part.n - row, 0, kLanes - lane);
      if (count > 0 && part.codes.has_value()) loadCodes(source, row, count, lane);
      else if (count > 0 && isBlocks(part.weight.dtype)) loadBlocks(set, part.weight, row, count, lane);
      else if (count > 0) quantize(set, part.weight, row, count, lane);
      lane += count;
      row = std::max(0, row - part.n);
    }
  }

  void interleave(char* panel) const {
    for (int header = 0; header < headers_; ++header) {
      panel = writeHeader(header, panel);
      const int end = std::min((header + 1) * headedSize(format_), paddedK_);
      for (int i = header * headedSize(format_); i < end; i += kBf16Depth) {
        if (isOf4Bits(format_.kind)) interleaveNibbles(i, panel);
        else interleaveBytes(i, panel);
        panel += kCodeSteps * codeStepBytes(format_.kind);
      }
    }
  }

 private:
  /// Returns where the codes begin.
  char* writeHeader(int header, char* out) const {
    const size_t bytes = scaleBytes(format_), rows = headerRows(format_);
    std::memcpy(out, &scales_[static_cast<size_t>(header) * kLanes], kStepBytes);
    if (rows == 2) std::memcpy(out + kStepBytes, &offsets_[static_cast<size_t>(header) * kLanes], kStepBytes);
    if (bytes == 0) return out + codeHeaderBytes(format_);
    std::memcpy(out + rows * kStepBytes, &scaleBytes_[header * bytes], bytes);
    if (rows == 2) std::memcpy(out + rows * kStepBytes + bytes, &offsetBytes_[header * bytes], bytes);
    return out + codeHeaderBytes(format_);
  }

  void interleaveNibbles(int first, char* out) const {
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint8_t* codes = &codes_[static_cast<size_t>(lane) * paddedK_ + first];
      for (int i = 0; i < kCodeColumnBytes; ++i) {
        const uint8_t* pair = codes + i % 2 * 16 + i / 2;
        out[lane * kCodeColumnBytes + i] = static_cast<char>(pair[0] | pair[8] << 4);
      }
    }
  }

  void interleaveBytes(int first, char* out) const {
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint8_t* codes = &codes_[static_cast<size_t>(lane) * paddedK_ + first];
      for (int i = 0; i < kBf16Depth; ++i) out[i / 2 * 2 * kLanes + lane * 2 + i % 2] = static_cast<char>(codes[i]);
    }
  }

  void loadCodes(const SourcePart& source, int row, int count, int lane) {
    const StoredCodes& stored = *source.part->codes;
    for (int i = 0; i < count; ++i) {
      uint8_t* codes = &codes_[static_cast<size_t>(lane + i) * paddedK_];
      readRow(source, row + i);
      for (int j = 0; j < k_; ++j) codes[j] = row_[stored.columns.empty() ? j : stored.columns[j]];
      for (int group = 0; group < groups_; ++group) {
        const size_t from = static_cast<size_t>(row + i) * groups_ + group, to = static_cast<size_t>(group) * kLanes + lane + i;
        scales_[to] = stored.scales[from];
        if (!stored.zeros.empty()) offsets_[to] = stored.zeros[from];
      }
    }
  }

  void loadBlocks(const KernelSet& set, const TensorSource& weight, int row, int count, int lane) {
    bytes_.resize(storedBytes(weight.dtype, k_));
    wide_.resize(k_);
    std::vector<float> scales(headers_), minimums(headers_);
    std::vector<int8_t> scaleBytes(groups_), minimumBytes(groups_);
    for (int i = 0; i < count; ++i) {
      weight.read(bytes_.data(), row + i, 1, k_);
      widenStored(set, weight.dtype, bytes_.data(), wide_.data(), k_);
      expectFinite(weight, wide_.data(), DType::F32, k_, row + i);
      readBlockCodes(weight.dtype, bytes_.data(), k_,
                     {&codes_[static_cast<size_t>(lane + i) * paddedK_], scales.data(), minimums.data(), scaleBytes.data(), minimumBytes.data()});
      putInLane(scales, lane + i, scales_);
      putInLane(minimums, lane + i, offsets_);
      putInLane(scaleBytes, lane + i, scaleBytes_);
      putInLane(minimumBytes, lane + i, offsetBytes_);
    }
  }

  /// Those of one column among those of 16.
  template <class T>
  static void putInLane(const std::vector<T>& column, int lane, std::vector<T>& lanes) {
    for (size_t i = 0; i < column.size(); ++i) lanes[i * kLanes + lane] = column[i];
  }

  /// row_ = the codes of row `row`, in the order of the weight.
  void readRow(const SourcePart& source, int row) {
    const LinearPart& part = *source.part;
    const int bits = codeBits(format_.kind), perByte = 8 / bits, perWord = 32 / bits, mask = (1 << bits) - 1;
    const char* bytes = source.bytes.data();
    if (part.codes->order == CodeOrder::Rows) {
      const int rowBytes = (k_ + perByte - 1) / perByte;
      bytes_.resize(rowBytes);
      part.weight.read(bytes_.data(), row, 1, rowBytes);
      for (int i = 0; i < k_; ++i) row_[i] = bytes_[i / perByte] >> i % perByte * bits & mask;
    } else if (part.codes->order == CodeOrder::Columns) {
      for (int i = 0; i < k_; ++i) {
        const int64_t word = int64_t{i / perWord} * part.n + row;
        row_[i] = bytes[word * 4 + i % perWord / perByte] >> i % perByte * bits & mask;
      }
    } else {
      constexpr int kPlaces[] = {0, 4, 1, 5, 2, 6, 3, 7};
      const int place = kPlaces[row % 8];
      for (int i = 0; i < k_; ++i) {
        const int64_t word = int64_t{i} * (part.n / 8) + row / 8;
        row_[i] = bytes[word * 4 + place / 2] >> place % 2 * 4 & mask;
      }
    }
    for (int i = 0; i < k_; ++i) row_[i] = static_cast<uint8_t>(row_[i] + part.codes->offset);
    if (format_.kind == CodeKind::Fp8) expectNumbers(part.weight, row);
  }

  void expectNumbers(const TensorSource& weight, int row) const {
    const auto wrong = std::find_if(row_.begin(), row_.begin() + k_, [](uint8_t code) { return (code & 0x7f) == kE4m3Nan; });
    if (wrong == row_.begin() + k_) return;
    throw std::runtime_error("tensor " + weight.name + " of " + weight.file->path() + " is not finite at [" +
                             std::to_string(row) + ", " + std::to_string(wrong - row_.begin()) + "]: NaN");
  }

  void quantize(const KernelSet& set, const TensorSource& weight, int row, int count, int lane) {
    numbers_.assign(static_cast<size_t>(paddedK_) * kLanes, 0.0f);
    bytes_.resize(storedBytes(weight.dtype, k_));
    wide_.resize(k_);
    for (int i = 0; i < count; ++i) {
      weight.read(bytes_.data(), row + i, 1, k_);
      widenStored(set, weight.dtype, bytes_.data(), wide_.data(), k_);
      expectFinite(weight, wide_.data(), DType::F32, k_, row + i);
      if (format_.kind == CodeKind::Fp8) quantizeFp8(lane + i);
      for (int j = 0; j < k_; ++j) numbers_[static_cast<size_t>(j) * kLanes + lane + i] = wide_[j];
    }
    if (format_.kind == CodeKind::Int4) quantizeInt4(set, lane, count);
  }

  void quantizeInt4(const KernelSet& set, int lane, int count) {
    laneCodes_.resize(numbers_.size());
    for (int group = 0; group < groups_; ++group) {
      const int first = group * format_.groupSize, length = std::min(format_.groupSize, k_ - first);
      float scales[kLanes];
      uint8_t* codes = laneCodes_.data() + static_cast<size_t>(first) * kLanes;
      set.quantizeInt4(numbers_.data() + static_cast<size_t>(first) * kLanes, length, codes, scales);
      std::copy_n(scales + lane, count, scales_.begin() + group * kLanes + lane);
      for (int i = lane; i < lane + count; ++i) {
        for (int j = 0; j < length; ++j) codes_[static_cast<size_t>(i) * paddedK_ + first + j] = codes[j * kLanes + i];
      }
    }
  }

  /// One scale for all of the row.
  void quantizeFp8(int lane) {
    float size = 0.0f;
    for (const float number : wide_) size = std::max(size, std::fabs(number));
    if (size < kFp8Least) return;
    const float scale = size / kE4m3Most;
    scales_[lane] = scale;
    for (int i = 0; i < k_; ++i) {
      codes_[static_cast<size_t>(lane) * paddedK_ + i] = toE4m3(wide_[i] / scale);
    }
  }

  CodeFormat format_;
  int k_;
  int paddedK_;
  int headers_;
  int groups_;
  std::vector<uint8_t> codes_;      // [16, paddedK]
  std::vector<float> scales_;       // [headers, 16]
  std::vector<float> offsets_;      // likewise: zeros or minimums
  std::vector<int8_t> scaleBytes_;  // [groups, 16]
  std::vector<int8_t> offsetBytes_;
  std::vector<uint8_t> row_;
  std::vector<char> bytes_;
  std::vector<float> wide_;
  std::vector<float> numbers_;   // [paddedK, 16]
  std::vector<uint8_t> laneCodes_;
};

/// What a header says of one column.
class HeaderOfLane {
 public:
  HeaderOfLane(const CodeFormat& format, const char* header, int lane)
      : format_(format), floats_(reinterpret_cast<const float*>(header) + lane), bytes_(header + headerRows(format) * kStepBytes + lane) {}

  /// What a code of the group encodes.
  float number(int group, float meaning) const {
    const float scale = valueOf(0, group);
    switch (format_.offset) {
      case CodeOffset::Zero: return roundToBf16((meaning - valueOf(1, group)) * scale);
      case CodeOffset::Minimum: return roundToBf16(meaning * scale - valueOf(1, group));
      default: return roundToBf16(meaning * scale);
    }
  }

 private:
  /// Of row 0 the scale, of row 1 the zero or minimum.
  float valueOf(int row, int group) const {
    const float value = floats_[row * kLanes];
    return format_.hasByteScales ? static_cast<float>(static_cast<int8_t>(bytes_[row * scaleBytes(format_) + group * kLanes])) * value : value;
  }

  const CodeFormat& format_;
  const float* floats_;
  const char* bytes_;
};

}  // namespace

PackedWeight packCodes(ThreadPool& pool, const KernelSet& set, const std::vector<std::vector<LinearPart>>& sources,
                       int panels, int k, const CodeFormat& codes) {
  const size_t panelBytes = codePanelBytes(codes, stepsOf(WeightFormat::Codes, k));
  const size_t bytes = panelBytes * panels;
  PackedWeight packed{{WeightFormat::Codes, codes, 0, k, false, bytes}, panels, Pages(bytes), {}, {}, {}, {}};
  std::vector<std::vector<SourcePart>> files;
  for (const std::vector<LinearPart>& parts : sources) files.push_back(opened(parts, k, codes.kind));
  const LinearPart& first = sources.front().front();
  if (first.codes.has_value()) packed.columns = first.codes->columns;
  const int count = static_cast<int>(sources.size());
  std::vector<CodePanel> scratch(pool.threads(), CodePanel(codes, k));
  FirstFailure failure;
  pool.run(panels, [&](int panel, int thread) {
    failure.guard([&] {
      scratch[thread].load(set, files[panel % count], panel / count * kLanes);
      scratch[thread].interleave(packed.data.data() + panel * panelBytes);
    });
  });
  failure.rethrow();
  return packed;
}

void unpackCodes(const PackedWeight& weight, int row, float* out) {
  const CodeFormat& format = weight.codes;
  const int lane = row % kLanes;
  const char* panel = weight.data.data() + row / kLanes * codePanelBytes(format, stepsOf(weight.format, weight.k));
  for (int first = 0; first < weight.k; first += headedSize(format)) {
    const HeaderOfLane header(format, panel, lane);
    panel += codeHeaderBytes(format);
    const int end = std::min(first + headedSize(format), static_cast<int>(roundUp(weight.k, kBf16Depth)));
    for (int i = first; i < std::min(end, weight.k); ++i) {
      const int in = i - first;
      uint8_t code;
      if (isOf4Bits(format.kind)) {
        const int column = in / kBf16Depth * kLanes + lane, byte = in % 8 * 2 + in % kBf16Depth / 16;
        code = static_cast<uint8_t>(panel[column * kCodeColumnBytes + byte]) >> in % 16 / 8 * 4 & 15;
      } else {
        code = static_cast<uint8_t>(panel[in / 2 * 2 * kLanes + lane * 2 + in % 2]);
      }
      out[weight.columns.empty() ? i : weight.columns[i]] = header.number(in / format.groupSize, meaningOf(format.kind, code));
    }
    panel += static_cast<size_t>(end - first) / 2 * codeStepBytes(format.kind);
  }
}

}  // namespace svc::cpu
