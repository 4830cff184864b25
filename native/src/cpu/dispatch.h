// The instruction sets that this processor has, and their kernels.
#pragma once

#include <string>
#include <vector>

#include "cpu/kernels.h"

namespace svc::cpu {

/// Names of the kernel sets that run here, best first; the last is always `portable`.
std::vector<std::string> availableSets();

/// The set called `name`. Throws std::runtime_error with a list of the available sets if it cannot run here.
KernelSet kernelSet(const std::string& name);

// Each instruction set fills in its part of the table.
namespace portable {
void addMatmul(KernelSet&);
void addAttention(KernelSet&);
void addElementwise(KernelSet&);
void addRecurrent(KernelSet&);
}  // namespace portable
namespace avx2 {
void addMatmul(KernelSet&);
void addAttention(KernelSet&);
void addElementwise(KernelSet&);
void addRecurrent(KernelSet&);
}  // namespace avx2
namespace avx512 {
void addMatmul(KernelSet&);
void addAttention(KernelSet&);
void addElementwise(KernelSet&);
void addRecurrent(KernelSet&);
}  // namespace avx512
namespace amx {
/// Replaces the bf16 and int8 products of the AVX-512 set.
void addMatmul(KernelSet&);
/// Replaces its attention over bf16 keys and values.
void addAttention(KernelSet&);
}  // namespace amx

}  // namespace svc::cpu
