// Low-rank adapters of products: what an adapter adds to one of them; `src/ops/lora.ts` defines it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/dtype.h"

namespace svc {

/// The numbers of a Lora as they are handed over.
struct LoraNumbers {
  DType dtype;  // in which they are kept: F32 or Bf16
  int k;
  int rank;
  bool isGateUp;
  int firstColumn;
  std::vector<float> a;       // [rank, k]
  std::vector<float> scales;  // [rank]
  std::vector<float> b;       // [n, rank]; of gate and up those of gate, then those of up
};

/// The part of an adapter that belongs to one product, or to columns of one. A backend keeps its numbers in a type derived
/// from this one, until the last op that uses them has run.
struct Lora {
  DType dtype;
  int k;
  bool isGateUp;
  int firstColumn;
  int n;  // columns of the product that it adds to; of gate and up, columns of each
};

/// What an adapter adds to a product.
struct AdapterLora {
  int32_t adapter;
  std::shared_ptr<const Lora> lora;
};

}  // namespace svc
