#include "cpu/code_panel.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "cpu/blocks.h"
#include "cpu/e4m3.h"
#include "cpu/finite.h"

namespace svc::cpu {
namespace {

/// The largest size of a row whose scale would be no normal number, and that counts as zero.
constexpr float kFp8Least = 0x1p-100f;

/// The code of zero.
uint8_t codeOfZero(CodeKind kind) { return static_cast<uint8_t>(shiftOf(kind)); }

/// Codes and bytes are: so are the numbers of blocks whose floats are.
bool areFinite(const std::vector<float>& floats) {
  return std::all_of(floats.begin(), floats.end(), [](float value) { return std::isfinite(value); });
}

/// Those of one column among those of 16.
template <class T>
void putInLane(const std::vector<T>& column, int lane, std::vector<T>& lanes) {
  for (size_t i = 0; i < column.size(); ++i) lanes[i * kLanes + lane] = column[i];
}

}  // namespace

std::vector<CodesSource> openCodes(const std::vector<LinearPart>& parts, int k, CodeKind kind) {
  std::vector<CodesSource> sources;
  for (const LinearPart& part : parts) {
    CodesSource& source = sources.emplace_back(CodesSource{&part, {}});
    if (!part.codes.has_value() || part.codes->order == CodeOrder::Rows) continue;
    const int64_t rowBytes = part.codes->order == CodeOrder::Columns ? int64_t{part.n} * 4 : int64_t{part.n} / 8 * 4;
    const int64_t rows = int64_t{part.n} * k * codeBits(kind) / 8 / rowBytes;
    source.bytes.resize(static_cast<size_t>(rows * rowBytes));
    part.weight.read(source.bytes.data(), 0, rows, rowBytes);
  }
  return sources;
}

float meaningOf(CodeKind kind, uint8_t code) {
  if (kind == CodeKind::Int8) return static_cast<float>(static_cast<int8_t>(code));
  if (kind == CodeKind::Fp8) return fromE4m3(code);
  return codeBits(kind) == 4 ? kMeanings[meaningsOf(kind)][code] : static_cast<float>(code - shiftOf(kind));
}

CodePanel::CodePanel(const CodeFormat& format, int k)
    : format_(format),
      k_(k),
      paddedK_(static_cast<int>(roundUp(k, kHalfDepth))),
      headers_(piecesOf(k, headedSize(format))),
      groups_(piecesOf(k, format.groupSize)),
      codes_(static_cast<size_t>(kLanes) * paddedK_),
      scales_(static_cast<size_t>(headers_) * headerFloats(format) * kLanes),
      offsets_(scales_.size()),
      scaleBytes_(static_cast<size_t>(groups_) * kLanes),
      offsetBytes_(scaleBytes_.size()),
      row_(paddedK_) {}

void CodePanel::load(const KernelSet& set, const std::vector<CodesSource>& sources, int first) {
  std::fill(codes_.begin(), codes_.end(), codeOfZero(format_.kind));
  std::fill(scales_.begin(), scales_.end(), 0.0f);
  std::fill(offsets_.begin(), offsets_.end(), 0.0f);
  int lane = 0, row = first;
  for (const CodesSource& source : sources) {
    const LinearPart& part = *source.part;
    const int count = std::clamp(part.n - row, 0, kLanes - lane);
    if (count > 0 && part.codes.has_value()) loadCodes(source, row, count, lane);
    else if (count > 0 && isBlocks(part.weight.dtype)) loadBlocks(set, part.weight, row, count, lane);
    else if (count > 0) quantize(set, part.weight, row, count, lane);
    lane += count;
    row = std::max(0, row - part.n);
  }
}

void CodePanel::loadCodes(const CodesSource& source, int row, int count, int lane) {
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

void CodePanel::loadBlocks(const KernelSet& set, const TensorSource& weight, int row, int count, int lane) {
  bytes_.resize(storedBytes(weight.dtype, k_));
  std::vector<float> scales(headers_), minimums(headers_);
  std::vector<int8_t> scaleBytes(groups_), minimumBytes(groups_);
  for (int i = 0; i < count; ++i) {
    weight.read(bytes_.data(), row + i, 1, k_);
    uint8_t* const codes = &codes_[static_cast<size_t>(lane + i) * paddedK_];
    readBlockCodes(weight.dtype, bytes_.data(), k_, {codes, scales.data(), minimums.data(), scaleBytes.data(), minimumBytes.data()});
    if (!areFinite(scales) || !areFinite(minimums)) refuse(set, weight, row + i);
    const int more = shiftOf(format_.kind) - shiftOf(codesOfBlocks(weight.dtype).kind);
    for (int j = 0; more != 0 && j < k_; ++j) codes[j] = static_cast<uint8_t>(codes[j] + more);
    putInLane(scales, lane + i, scales_);
    putInLane(minimums, lane + i, offsets_);
    putInLane(scaleBytes, lane + i, scaleBytes_);
    putInLane(minimumBytes, lane + i, offsetBytes_);
  }
}

void CodePanel::refuse(const KernelSet& set, const TensorSource& weight, int row) {
  wide_.resize(k_);
  widenStored(set, weight.dtype, bytes_.data(), wide_.data(), k_);
  expectFinite(weight, wide_.data(), DType::F32, k_, row);
}

void CodePanel::readRow(const CodesSource& source, int row) {
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

void CodePanel::expectNumbers(const TensorSource& weight, int row) const {
  const auto wrong = std::find_if(row_.begin(), row_.begin() + k_, [](uint8_t code) { return (code & 0x7f) == kE4m3Nan; });
  if (wrong == row_.begin() + k_) return;
  throw std::runtime_error("tensor " + weight.name + " of " + weight.file->path() + " is not finite at [" +
                           std::to_string(row) + ", " + std::to_string(wrong - row_.begin()) + "]: NaN");
}

void CodePanel::quantize(const KernelSet& set, const TensorSource& weight, int row, int count, int lane) {
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

void CodePanel::quantizeInt4(const KernelSet& set, int lane, int count) {
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

void CodePanel::quantizeFp8(int lane) {
  float size = 0.0f;
  for (const float number : wide_) size = std::max(size, std::fabs(number));
  if (size < kFp8Least) return;
  const float scale = size / kE4m3Most;
  scales_[lane] = scale;
  for (int i = 0; i < k_; ++i) {
    codes_[static_cast<size_t>(lane) * paddedK_ + i] = toE4m3(wide_[i] / scale);
  }
}

}  // namespace svc::cpu
