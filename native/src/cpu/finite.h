// Weights are checked while they are loaded: all numbers that are served were whole and finite then.
#pragma once

#include <vector>

#include "backend/tensor_source.h"
#include "cpu/kernels.h"

namespace svc::cpu {

/// All `count` numbers of a vector, in f32. Throws std::runtime_error where one is not finite.
std::vector<float> readVector(const KernelSet&, const TensorSource&, int64_t count);

/// Throws std::runtime_error naming the tensor where one of `count` numbers of f32 or bf16 is NaN or infinite; the first
/// of them is number `first` of the tensor, whose rows are `cols` long.
void expectFinite(const TensorSource&, const void* numbers, DType dtype, int64_t count, int64_t first, int64_t cols);

}  // namespace svc::cpu
