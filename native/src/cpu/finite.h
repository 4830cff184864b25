// Weights are checked while they are loaded: a model with NaN or infinite weights is never served.
#pragma once

#include <optional>
#include <vector>

#include "backend/tensor_source.h"
#include "cpu/kernels.h"

namespace svc::cpu {

/// All `count` numbers of a vector, in f32. Throws std::runtime_error if one is not finite.
std::vector<float> readVector(const KernelSet&, const TensorSource&, int64_t count);

/// The same of scales. Throws std::runtime_error too if one is not above 0.
std::vector<float> readScales(const KernelSet&, const TensorSource&, int64_t count);

/// Throws std::runtime_error, naming the tensor and the place, if one of `count` numbers of f32, bf16 or f16 is NaN or
/// infinite. The numbers are row `row` of the rectangle; a vector has no rows.
void expectFinite(const TensorSource&, const void* numbers, DType dtype, int64_t count, std::optional<int64_t> row);

}  // namespace svc::cpu
