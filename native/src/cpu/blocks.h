// The quantised formats of GGUF: numbers of a row in blocks, each with its scales. src/ops/block-formats.ts defines them.
#pragma once

#include <vector>

#include "backend/tensor_source.h"
#include "cpu/kernels.h"

namespace svc::cpu {

/// `count` numbers of a file, whole blocks of them, in f32: of any format but U8 and I8.
void widenStored(const KernelSet&, DType, const char* in, float* out, int64_t count);

/// Of a row of blocks: the codes that `codesOfBlocks` names [k], and its scales in their order. Minimums are written where the format
/// has them, and bytes, one a group, where its scales are such; floats are then those of super-blocks.
struct BlockCodes {
  uint8_t* codes;
  float* scales;
  float* minimums;
  int8_t* scaleBytes;
  int8_t* minimumBytes;
};

void readBlockCodes(DType, const char* row, int k, BlockCodes);

/// Rows [row, row + rows) of a source of I8, or of blocks of numbers from -1 to 1, whose scales are left out: `k` bytes each. `blocks` is
/// memory to work in. Throws std::runtime_error where the file ends too early, or a code stands for no number.
void readWholeRows(const TensorSource&, int row, int rows, int k, std::vector<char>& blocks, char* to);

}  // namespace svc::cpu
