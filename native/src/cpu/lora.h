// What adapters add to products: x is multiplied by the small matrices first, their products by the large ones where the
// product of the model has just been made.
#pragma once

#include <memory>
#include <vector>

#include "backend/lora.h"
#include "cpu/matmul.h"
#include "memory/pages.h"

namespace svc::cpu {

struct HostLora : Lora {
  std::vector<float> scales;      // [rank]
  std::shared_ptr<const char> a;  // [rank, k] in panels
  std::shared_ptr<const char> b;  // the blocks of `panels`
  std::vector<LowRankPanel> panels;

  int rank() const { return static_cast<int>(scales.size()); }
  int panelsOfA() const { return static_cast<int>(roundUp(rank(), kLanes)) / kLanes; }
  WeightFormat formatOfA() const { return dtype == DType::F32 ? WeightFormat::F32 : WeightFormat::Half; }
};

/// Small matrices in huge pages that they share. A step reads each of them once: in ordinary pages, the processor would look up
/// where each 4 KB of them are.
class MatrixMemory {
 public:
  /// Zeros, `bytes` of them, from the beginning of a line on. Their huge page lives as long as any matrix in it.
  std::shared_ptr<char> take(size_t bytes);

 private:
  std::shared_ptr<Pages> pages_ = std::make_shared<Pages>();
  size_t used_ = 0;
};

/// Throws std::runtime_error where a number is not finite in the packed format.
std::shared_ptr<const HostLora> packLora(ThreadPool&, const KernelSet&, MatrixMemory&, const LoraNumbers&);

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
