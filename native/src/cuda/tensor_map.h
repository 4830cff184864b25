// Matrices as the unit for copies of Hopper knows them.
#pragma once

#include "cuda/driver.h"
#include "cuda/params.h"

namespace svc::cuda {

/// Of `data` [rows, columns] of 16 bits, each row `stride` numbers further and at a multiple of 16 bytes; boxes are `boxRows` rows of kTileK columns, whose
/// pieces are swapped as `pieceOf` of the kernels has them. Throws DriverError.
TensorMap tensorMap(const Driver& driver, const uint16_t* data, int rows, int columns, int64_t stride, int boxRows);

}  // namespace svc::cuda
