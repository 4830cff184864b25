// Restriction, biases and penalties of single logits, and log-probabilities: `logits` ops of the op interface.
#pragma once

#include "backend/backend.h"
#include "cpu/weighed_row.h"
#include "threads/pool.h"

namespace svc::cpu {

void runRestrict(ThreadPool&, Rows logits, int vocab, const IdLists&);
void runMask(ThreadPool&, const KernelSet&, Rows logits, int vocab, const TokenMasks&);
void runEdit(ThreadPool&, Rows logits, const LogitEdits&);
/// `weighed` is memory of each thread that calls reuse.
void runLogprobs(ThreadPool&, const KernelSet&, std::vector<WeighedRow>& weighed, Rows logits, int vocab, const LogprobRows&);

}  // namespace svc::cpu
