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
  /// The same as products of codes take them.
  Pages rowsForCodes;
  /// By thread: panels of bf16 that codes were expanded to.
  std::vector<Pages> panels;
  /// By thread: what is added to a part of a product.
  std::vector<Pages> addends;
};

/// What adapters add to a product, of those that have rows of it; none to be the product alone. Panels of gate and up take turns.
struct LowRank {
  DType dtype = DType::F32;  // of t and B
  std::vector<LowRankRows> adapters;
};

/// out [rows, n] f32 = x · weightᵀ + bias, or += with `add`. x has the weight's input format, padded with zeros.
void runLinear(ThreadPool&, const KernelSet&, ProductMemory&, const PackedWeight&, Rows x, Rows out, bool add,
               const LowRank& lowRank = {});

/// out [rows, n padded] in the weight's input format = activation(x · gateᵀ) * (x · upᵀ).
void runGateUp(ThreadPool&, const KernelSet&, ProductMemory&, const PackedWeight&, GatedActivation, Rows x, Rows out,
               const LowRank& lowRank = {});

}  // namespace svc::cpu
