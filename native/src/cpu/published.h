// A tensor where it was published: a place in a file. Reading it checks its numbers, so that what is served was whole
// and finite when it was loaded.
#pragma once

#include <string>
#include <vector>

#include "cpu/kernels.h"
#include "memory/weight_file.h"

namespace svc::cpu {

struct Published {
  const WeightFile* file;
  std::string name;
  size_t byteOffset;
  DType dtype;

  /// Numbers [first, first + count), as they lie in the file.
  void read(void* to, int64_t first, int64_t count) const {
    const size_t element = elementBytes(dtype);
    file->read(to, static_cast<size_t>(count) * element, byteOffset + static_cast<size_t>(first) * element);
  }
};

/// All `count` numbers of a vector, in f32. Throws std::runtime_error where one is not finite.
std::vector<float> readVector(const KernelSet&, const Published&, int64_t count);

/// Throws std::runtime_error naming the tensor where one of `count` numbers of f32 or bf16 is NaN or infinite; the first
/// of them is number `first` of the tensor, whose rows are `cols` long.
void expectFinite(const Published&, const void* numbers, DType dtype, int64_t count, int64_t first, int64_t cols);

}  // namespace svc::cpu
