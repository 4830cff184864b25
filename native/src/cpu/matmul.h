// Matrix products over all threads: cuts the job of `linear` and `siluGateUp` into tasks.
#pragma once

#include "cpu/packed_weight.h"
#include "threads/pool.h"

namespace svc::cpu {

/// out [rows, n] f32 = x · weightᵀ + bias, or += with `add`. x has the weight's format, padded with zeros.
void runLinear(ThreadPool&, const KernelSet&, const PackedWeight&, Rows x, Rows out, bool add);

/// out [rows, n padded] in the weight's format = silu(x · gateᵀ) * (x · upᵀ).
void runSiluGateUp(ThreadPool&, const KernelSet&, const PackedWeight&, Rows x, Rows out);

}  // namespace svc::cpu
