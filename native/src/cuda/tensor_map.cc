#include "cuda/tensor_map.h"

#include "cuda/launch.h"

namespace svc::cuda {

TensorMap tensorMap(const Driver& driver, const uint16_t* data, int rows, int columns, int64_t stride, int boxRows) {
  TensorMap map{};
  const uint64_t sizes[] = {static_cast<uint64_t>(columns), static_cast<uint64_t>(rows)};
  const uint64_t rowBytes = static_cast<uint64_t>(stride) * sizeof(uint16_t);
  const uint32_t box[] = {kTileK, static_cast<uint32_t>(boxRows)}, steps[] = {1, 1};
  driver.check(driver.cuTensorMapEncodeTiled(&map, kTensorBf16, 2, const_cast<uint16_t*>(data), sizes, &rowBytes, box, steps,
                                             kTensorInterleaveNone, kTensorSwizzle128, kTensorL2Promotion256, kTensorFillZero),
               "describe a matrix to its unit for copies");
  return map;
}

}  // namespace svc::cuda
