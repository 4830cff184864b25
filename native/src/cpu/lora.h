// What adapters add to products: x is multiplied by the small matrices first, their products by the large ones where the
// product of the model has just been made.
#pragma once

#include "backend/lora.h"
#include "cpu/matmul.h"

namespace svc::cpu {

struct HostLora : Lora {
  PackedWeight a;  // [rank, k]
  PackedWeight b;  // the panels of the product from `firstPanel` on, k being the rank
  int firstPanel;
  std::vector<float> scales;  // [rank]
};

/// Throws std::runtime_error where a number is not finite in the packed format.
std::shared_ptr<const HostLora> packLora(ThreadPool&, const KernelSet&, const LoraNumbers&);

/// Memory that adapters use again; each piece grows to the largest one seen.
struct LoraMemory {
  Pages lowRank;
  /// By thread.
  std::vector<Pages> sums;
};

/// Rows of a step that one adapter computes, and what it adds to them: B · (what `lowRank` has of these rows).
struct LoraRows {
  Range rows;
  const HostLora* lora;
  char* lowRank;
  size_t stride;  // bytes
};

/// As runLinear and runGateUp, with what the adapters of its rows add. A row's bits are its own: those of the product, then
/// those of each of its `loras` in order, whatever rows are beside it.
void runLinearLora(ThreadPool&, const KernelSet&, ProductMemory&, LoraMemory&, const PackedWeight&,
                   const std::vector<AdapterRows>&, const std::vector<AdapterLora>&, Rows x, Rows out, bool add);
void runGateUpLora(ThreadPool&, const KernelSet&, ProductMemory&, LoraMemory&, const PackedWeight&,
                   const std::vector<AdapterRows>&, const std::vector<AdapterLora>&, GatedActivation, Rows x, Rows out);

}  // namespace svc::cpu
