// Products of heads: each head of a row has a weight of its own.
#pragma once

#include <vector>

#include "cpu/packed_weight.h"

namespace svc::cpu {

/// By thread: rows of one head as its product takes them.
using HeadMemory = std::vector<Pages>;

/// Head h of out [rows, heads * (n, and the rest where it is kept)] f32 = the first k numbers of head h of x · weights[h]ᵀ, and
/// after them the head's other numbers where `heads.keepsRest`. All weights are floats, of one shape and format.
void runHeadLinear(ThreadPool&, const KernelSet&, HeadMemory&, const HeadWeights& heads, DType dtype, Rows x, Rows out);

}  // namespace svc::cpu
