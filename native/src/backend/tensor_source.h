// A rectangle of a published tensor in its file. The load functions of a backend take these.
#pragma once

#include <optional>
#include <string>

#include "backend/dtype.h"
#include "memory/weight_file.h"

namespace svc {

struct TensorSource {
  const WeightFile* file;
  /// The checkpoint's name, for errors.
  std::string name;
  size_t byteOffset;  // of the whole tensor
  DType dtype;
  int64_t rowLength;  // numbers of a row in the file; a vector is one row
  int64_t firstRow, firstCol;  // of the rectangle

  /// `rows` rows of the rectangle from `row` on, `cols` numbers each, one row after the other, as they are in the file.
  void read(void* to, int64_t row, int64_t rows, int64_t cols) const {
    // Whole rows follow each other without a gap.
    const int64_t together = cols == rowLength ? rows : 1;
    const auto bytesOf = [this](int64_t numbers) { return static_cast<size_t>(numbers) * elementBytes(dtype); };
    for (int64_t done = 0; done < rows; done += together) {
      const int64_t first = (firstRow + row + done) * rowLength + firstCol;
      file->read(static_cast<char*>(to) + bytesOf(done * cols), bytesOf(together * cols), byteOffset + bytesOf(first));
    }
  }
};

/// A published weight [n, k] and its bias [n] if it has one; they may begin at any byte. Whole numbers, I8, have a scale
/// for each of the n rows.
struct LinearPart {
  TensorSource weight;
  int n;
  std::optional<TensorSource> scales;
  std::optional<TensorSource> bias;
};

}  // namespace svc
