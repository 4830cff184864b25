// Published codes, or numbers that are quantised here, as rows of codes and what is beside them: what every device packs weights from.
#pragma once

#include <vector>

#include "backend/tensor_source.h"
#include "cpu/kernels.h"

namespace svc::cpu {

/// A part, and all its bytes where its rows are not those of the weight, since a panel needs some of each row.
struct CodesSource {
  const LinearPart* part;
  std::vector<char> bytes;
};

std::vector<CodesSource> openCodes(const std::vector<LinearPart>& parts, int k, CodeKind kind);

/// What a code means, in the units that zeros have.
float meaningOf(CodeKind kind, uint8_t code);

/// Pieces of k of so many numbers.
constexpr int piecesOf(int k, int size) { return static_cast<int>(roundUp(k, size)) / size; }

/// Codes of 16 columns of the output and what they have beside them, a column a lane.
class CodePanel {
 public:
  CodePanel(const CodeFormat& format, int k);

  /// Columns [first, first + 16), counted over all parts; those after the last part are padding. Throws std::runtime_error where a
  /// file ends too early or a number is not finite.
  void load(const KernelSet& set, const std::vector<CodesSource>& sources, int first);

  /// One code a byte; those past k mean zero.
  const uint8_t* codes(int lane) const { return &codes_[static_cast<size_t>(lane) * paddedK_]; }
  int paddedK() const { return paddedK_; }
  int headers() const { return headers_; }
  /// Of each piece of floatSize numbers, the scales of 16 lanes; those of a header are one behind the other.
  const float* scales(int piece) const { return &scales_[static_cast<size_t>(piece) * kLanes]; }
  /// Zeros or minimums.
  const float* offsets(int piece) const { return &offsets_[static_cast<size_t>(piece) * kLanes]; }
  /// Of each group, where scales are bytes.
  int groups() const { return groups_; }
  const int8_t* scaleBytes(int group) const { return &scaleBytes_[static_cast<size_t>(group) * kLanes]; }
  const int8_t* offsetBytes(int group) const { return &offsetBytes_[static_cast<size_t>(group) * kLanes]; }

 private:
  void loadCodes(const CodesSource& source, int row, int count, int lane);
  void loadBlocks(const KernelSet& set, const TensorSource& weight, int row, int count, int lane);
  /// Throws: the blocks of this row, which bytes_ has, hold a number that is not finite.
  void refuse(const KernelSet& set, const TensorSource& weight, int row);
  /// row_ = the codes of row `row`, in the order of the weight.
  void readRow(const CodesSource& source, int row);
  void expectNumbers(const TensorSource& weight, int row) const;
  void quantize(const KernelSet& set, const TensorSource& weight, int row, int count, int lane);
  void quantizeInt4(const KernelSet& set, int lane, int count);
  /// One scale for all of the row.
  void quantizeFp8(int lane);

  CodeFormat format_;
  int k_;
  int paddedK_;
  int headers_;
  int groups_;
  std::vector<uint8_t> codes_;      // [16, paddedK]
  std::vector<float> scales_;       // [pieces, 16]
  std::vector<float> offsets_;      // likewise: zeros or minimums
  std::vector<int8_t> scaleBytes_;  // [groups, 16]
  std::vector<int8_t> offsetBytes_;
  std::vector<uint8_t> row_;
  std::vector<char> bytes_;
  std::vector<float> wide_;
  std::vector<float> numbers_;  // [paddedK, 16]
  std::vector<uint8_t> laneCodes_;
};

}  // namespace svc::cpu
