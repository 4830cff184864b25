// Matrix products over all threads: cuts the job of `linear` and `siluGateUp` into tasks.
#pragma once

#include "cpu/packed_weight.h"
#include "threads/pool.h"

namespace svc::cpu {

/// Memory for quantised rows that products of int8 reuse; grows to the largest input seen.
struct QuantizedRows {
  Pages numbers;
  std::vector<float> scales;
};

/// out [rows, n] f32 = x · weightᵀ + bias, or += with `add`. x has the weight's input format, padded with zeros.
void runLinear(ThreadPool&, const KernelSet&, QuantizedRows&, const PackedWeight&, Rows x, Rows out, bool add);

/// out [rows, n padded] in the weight's input format = silu(x · gateᵀ) * (x · upᵀ).
void runSiluGateUp(ThreadPool&, const KernelSet&, QuantizedRows&, const PackedWeight&, Rows x, Rows out);

}  // namespace svc::cpu
