// Weights in the order in which kernels read them, one for all instruction sets.
//
//   bf16: [panel of 16 columns][k padded to 32, in pairs][16 columns][2]   a pair of one column is one 32-bit word
//   f32:  [panel of 16 columns][k][16 columns]
//   int8: [panel of 16 columns][k padded to 64, in fours][16 columns][4]
//   ternary: [panel of 16 columns][k padded to 64, in sixteens][16 columns][4 bytes], each byte with four of k, 4 apart, as signed numbers of 2
//     bits, the first one in the highest
//   codes: [panel of 16 columns][group][scales of 16 columns, in f32][zeros or minimums likewise, if any][codes of the group's k]
//     with scales of bytes: [panel][super-block][what scales are multiples of, and minimums if any, of 16 columns, in f32]
//       [group][scale of 16 columns, a byte][likewise minimums, if any][codes of the super-block's k]
//     of 4 bits: [32 of k][16 columns][8 of k][4 of k, 8 apart], the first of four in the lowest bits of 16
//     of 2, 3, 5 and 6 bits: [32 of k][the lower 4 bits, as of 4, or 2 bits][the upper bits, if any]
//       1 or 2 bits of each: [16 or 8 pairs of k][16 columns][2 of k][a pair, the first one in the lowest bits of 16]
//     of 8 bits: [k in pairs][16 columns][2]
//
// Columns of the output are rows of the published weight. What pads k and the last panel is zero.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "cpu/kernels.h"
#include "memory/pages.h"
#include "threads/pool.h"

namespace svc::cpu {

struct PackedWeight : Weight {
  int panels;
  Pages data;
  std::vector<float> bias;  // padded to whole panels, empty without a bias
  // Of whole numbers, padded to whole panels: see Dequantization.
  std::vector<float> scales;
  std::vector<int32_t> offsets;
  /// Of codes: which column of x is multiplied with each of k; empty where it is the same.
  std::vector<int32_t> columns;

  const float* biasOrNull() const { return bias.empty() ? nullptr : bias.data(); }
};

/// Calls visit(part) for each piece of memory of `weight`, a PackedWeight or a const one: what the packed cache keeps of it
/// beside its plain numbers.
template <class Packed, class Visit>
void eachPart(Packed& weight, const Visit& visit) {
  visit(weight.data);
  visit(weight.bias);
  visit(weight.scales);
  visit(weight.offsets);
  visit(weight.columns);
}

/// The output has the columns of all parts, one after the other. Throws std::runtime_error where a
/// file ends too early or a number is not finite in the packed format.
PackedWeight packLinear(ThreadPool&, const KernelSet&, const std::vector<LinearPart>& parts, int k, const WeightForm&);

/// Panels of gate and up alternate; gate and up have the same n.
PackedWeight packGateUp(ThreadPool&, const KernelSet&, const LinearPart& gate, const LinearPart& up, int k, const WeightForm&);

/// Row `row` of the published weight of packLinear, as it was packed: k numbers in f32.
void unpackRow(const PackedWeight&, int row, float* out);

}  // namespace svc::cpu
