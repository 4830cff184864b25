// What the emulated driver makes of a tensor map, and the emulated kernels read of it: where a matrix of 16-bit numbers is, and how large its boxes are.
#pragma once

#include <cstdint>

namespace svc::simt {

struct TensorMap {
  uint64_t address;
  uint64_t columns, rows, rowBytes;
  uint32_t boxColumns, boxRows;
};
static_assert(sizeof(TensorMap) <= 128);

}  // namespace svc::simt
