// A published tensor, or a rectangle of one, in its file. Loading checks its numbers, so that what is served was whole and
// finite when it was loaded.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cpu/kernels.h"
#include "memory/weight_file.h"

namespace svc::cpu {

struct Published {
  const WeightFile* file;
  std::string name;
  size_t byteOffset;  // of the whole tensor
  DType dtype;
  int64_t rowLength;  // numbers of a row in the file; a vector is one row
  int64_t firstRow, firstCol;  // of the rectangle

  /// `rows` rows of the rectangle from `row` on, `cols` numbers each, one row after the other, as they are in the file.
  void read(void* to, int64_t row, int64_t rows, int64_t cols) const;
};

/// All `count` numbers of a vector, in f32. Throws std::runtime_error where one is not finite.
std::vector<float> readVector(const KernelSet&, const Published&, int64_t count);

/// Throws std::runtime_error naming the tensor and the place where one of `count` numbers of f32 or bf16 is NaN or
/// infinite. They are row `row` of the rectangle; a vector has no rows.
void expectFinite(const Published&, const void* numbers, DType dtype, int64_t count, std::optional<int64_t> row);

}  // namespace svc::cpu
