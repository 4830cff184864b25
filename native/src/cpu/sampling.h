// Samples one token a row of logits: `sample` of the op interface.
#pragma once

#include "backend/backend.h"
#include "cpu/kernels.h"
#include "threads/pool.h"

namespace svc::cpu {

void runSample(ThreadPool&, const KernelSet&, Rows logits, int vocab, const SamplingRows&, int32_t* tokens);

}  // namespace svc::cpu
