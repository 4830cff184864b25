// Samples one token a row of logits: `sample` of the op interface.
#pragma once

#include "backend/backend.h"
#include "cpu/weighed_row.h"
#include "threads/pool.h"

namespace svc::cpu {

/// `weighed` is memory of each thread that calls reuse.
void runSample(ThreadPool&, const KernelSet&, std::vector<WeighedRow>& weighed, Rows logits, int vocab, const SamplingRows&,
               int32_t* tokens);

}  // namespace svc::cpu
