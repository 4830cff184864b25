// The quantised formats of GGUF: numbers of a row in blocks, each with its scales. src/ops/block-formats.ts defines them.
#pragma once

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

}  // namespace svc::cpu
