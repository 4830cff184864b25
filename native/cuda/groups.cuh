// Products by groups of rows: what of one a block of threads takes.
#pragma once

#include "device.cuh"

namespace svc::cuda {

/// The product of one group, from row `firstToken` on; without rows where the block has nothing to do.
struct GroupProduct {
  LinearParams product;
  int firstToken;
};

/// Of blocks that take `weights` rows of the weight, and of a group without tiles `tokens` rows of x. `Weight` says how a weight is found from that
/// which groups are counted from, and what x and what is gated are.
template <class Weight>
__device__ __forceinline__ GroupProduct groupProduct(const GroupedLinearParams& p, int weights, int tokens) {
  const bool hasTiles = p.tiles != nullptr;
  GroupProduct of{p.product, hasTiles ? 0 : static_cast<int>(blockIdx.y) * tokens};
  LinearParams& product = of.product;
  const auto nothing = [&] {
    product.rows = 0;
    return of;
  };
  if (hasTiles && static_cast<int>(blockIdx.y) >= *p.numTiles) return nothing();
  const GroupTile tile = hasTiles ? p.tiles[blockIdx.y] : GroupTile{static_cast<int>(blockIdx.z), 0, p.product.rows};
  const GroupWeight& weight = p.weights[tile.group];
  if (static_cast<int>(blockIdx.x) * weights >= weight.n) return nothing();
  Weight::moveTo(product, weight);
  product.bias = weight.hasBias ? product.bias + weight.firstBias : nullptr;
  product.n = weight.n;
  product.segmentsPerBlock = product.segments;
  product.rows = tile.rows;
  const int64_t first = hasTiles ? tile.firstRow * product.xStride : tile.group * p.xStep;
  product.x += first * (Weight::kInput == Format::F32 ? 2 : 1);
  if (product.rowScales != nullptr) product.rowScales += tile.firstRow;
  if (hasTiles) product.out = rowOf(product.activation < 0 ? Format::F32 : Weight::kInput, product.out, product.outStride, tile.firstRow);
  else product.out = static_cast<float*>(product.out) + tile.group * p.outStep;
  return of;
}

}  // namespace svc::cuda
