// Weights of codes: see packed_weight.h for their order, backend/dtype.h for their meaning.
#pragma once

#include "cpu/packed_weight.h"

namespace svc::cpu {

/// Panel p has 16 columns of the parts sources[p % count], from column 16 * (p / count) on. Parts without codes are
/// quantised. All parts with codes have the same order of columns. Throws std::runtime_error where a file ends too early
/// or a number is not finite.
PackedWeight packCodes(ThreadPool&, const KernelSet&, const std::vector<std::vector<LinearPart>>& sources, int panels,
                       int k, const CodeFormat&);

/// Row `row` of the weight: what its codes encode.
void unpackCodes(const PackedWeight&, int row, float* out);

}  // namespace svc::cpu
