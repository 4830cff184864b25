// The quantised formats of GGUF: numbers of a row in blocks, each with its scales. src/ops/block-formats.ts defines them.
#pragma once

#include "cpu/kernels.h"

namespace svc::cpu {

/// `count` numbers of a file, whole blocks of them, in f32: of any format but U8 and I8.
void widenStored(const KernelSet&, DType, const char* in, float* out, int64_t count);

/// Codes [k] and the scales of their groups: those of `codesOfBlocks`, of a row of such blocks.
void readBlockCodes(DType, const char* row, int k, uint8_t* codes, float* scales);

}  // namespace svc::cpu
