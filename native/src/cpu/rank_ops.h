// What ranks do together: each op runs on all of them, and returns when all have what they wanted.
#pragma once

#include "backend/backend.h"
#include "ranks/rank_member.h"
#include "threads/pool.h"

namespace svc::cpu {

/// x f32: the sum of the x of all ranks, as a binary tree of neighbours.
void runSumRanks(ThreadPool&, RankMember&, Rows x, int64_t cols);
/// The columns x of all ranks, of which each has `widths`, side by side. x may be its own columns of out. Without
/// out.data this rank only lends its own.
void runGatherColumns(ThreadPool&, RankMember&, DType, const std::vector<int32_t>& widths, Rows x, Rows out);
/// Rank 0's tokens on all of them.
void runShareSampled(RankMember&, int32_t* tokens, int64_t count);

}  // namespace svc::cpu
