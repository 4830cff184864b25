// Weights of codes: see packed_weight.h for their order, backend/dtype.h for their meaning.
#pragma once

#include "cpu/packed_weight.h"

namespace svc::cpu {

/// How codes that could be kept as `codes` are kept: with the bits that they were published with where products take whole numbers; elsewhere
/// bytes are made numbers of faster.
CodeFormat keptCodes(const KernelSet&, const std::vector<std::vector<LinearPart>>& sources, const CodeFormat& codes);

/// Panel p has 16 columns of the parts sources[p % count], from column 16 * (p / count) on. Parts without codes are
/// quantised. All parts with codes have the same order of columns. Throws std::runtime_error where a file ends too early
/// or a number is not finite.
PackedWeight packCodes(ThreadPool&, const KernelSet&, const std::vector<std::vector<LinearPart>>& sources, int panels,
                       int k, const CodeFormat&);

/// Row `row` of the weight: what its codes encode.
void unpackCodes(const PackedWeight&, int row, float* out);

}  // namespace svc::cpu
