// A tensor in its file, as published: what the load functions of a backend take.
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
  size_t byteOffset;
  DType dtype;

  /// Numbers [first, first + count), in the format of the file.
  void read(void* to, int64_t first, int64_t count) const {
    const size_t element = elementBytes(dtype);
    file->read(to, static_cast<size_t>(count) * element, byteOffset + static_cast<size_t>(first) * element);
  }
};

/// A published weight [n, k], row-major, and its bias [n] if it has one; both may begin at any byte.
struct LinearPart {
  TensorSource weight;
  int n;
  std::optional<TensorSource> bias;
};

}  // namespace svc
