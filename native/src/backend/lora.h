// Low-rank adapters of products: what an adapter adds to one of them; `src/ops/lora.ts` defines it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/dtype.h"

namespace svc {

/// What some of the ranks add to some of the columns; those of up come after all of gate.
struct LoraPart {
  int firstColumn, columns;
  int firstRank, ranks;
};

/// The numbers of a Lora as they are handed over.
struct LoraNumbers {
  DType dtype;  // in which they are kept: F32, or the backend's halves
  int k;
  int n;  // columns of the product; of gate and up, of each
  bool isGateUp;
  std::vector<float> a;         // [rank, k]
  std::vector<float> scales;    // [rank]
  std::vector<LoraPart> parts;  // in the order of their columns, of which no two have one in common
  std::vector<float> b;         // of each part [columns, ranks], one after the other
};

/// The part of an adapter that belongs to one product. A backend keeps its numbers in a type derived from this one, until the
/// last op that uses them has run.
struct Lora {
  DType dtype;
  int k;
  int n;
  bool isGateUp;
};

/// What an adapter adds to a product.
struct AdapterLora {
  int32_t adapter;
  std::shared_ptr<const Lora> lora;
};

}  // namespace svc
