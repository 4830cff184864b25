// Matrix products over all threads: cuts the job of `linear` and `gateUp` into tasks.
#pragma once

#include "cpu/packed_weight.h"
#include "threads/pool.h"

namespace svc::cpu {

/// Memory that products use again; each grows to the largest one seen.
struct ProductMemory {
  /// Rows of the input as the product takes them: quantised, or in another order.
  Pages rows;
  std::vector<float> scales;
  /// By thread: panels of bf16 that codes were expanded to.
  std::vector<Pages> panels;
};

/// out [rows, n] f32 = x · weightᵀ + bias, or += with `add`. x has the weight's input format, padded with zeros.
void runLinear(ThreadPool&, const KernelSet&, ProductMemory&, const PackedWeight&, Rows x, Rows out, bool add);

/// out [rows, n padded] in the weight's input format = activation(x · gateᵀ) * (x · upᵀ).
void runGateUp(ThreadPool&, const KernelSet&, ProductMemory&, const PackedWeight&, GatedActivation, Rows x, Rows out);

}  // namespace svc::cpu
