// What adapters add to products: x is multiplied by the small matrices first, their products by the large ones where the
// product of the model has just been made.
#pragma once

#include "backend/lora.h"
#include "cpu/matmul.h"

namespace svc::cpu {

struct HostLora : Lora {
  PackedWeight a;             // [rank, k]
  std::vector<float> scales;  // [rank]
  Pages blocks;               // of B
  std::vector<LowRankPanel> panels;
};

/// Throws std::runtime_error where a number is not finite in the packed format.
std::shared_ptr<const HostLora> packLora(ThreadPool&, const KernelSet&, const LoraNumbers&);

/// Memory that adapters use again; each piece grows to the largest one seen.
struct LoraMemory {
  /// t of all adapters.
  Pages t;
  /// By thread: sums of A.
  std::vector<Pages> sums;
};

/// As runLinear and runGateUp, with what the adapters of its rows add. A row's bits are its own: those of the product, then
/// those of its adapter's sum, whatever rows are beside it.
void runLinearLora(ThreadPool&, const KernelSet&, ProductMemory&, LoraMemory&, const PackedWeight&,
                   const std::vector<AdapterRows>&, const std::vector<AdapterLora>&, Rows x, Rows out, bool add);
void runGateUpLora(ThreadPool&, const KernelSet&, ProductMemory&, LoraMemory&, const PackedWeight&,
                   const std::vector<AdapterRows>&, const std::vector<AdapterLora>&, GatedActivation, Rows x, Rows out);

}  // namespace svc::cpu
