// Attention over all threads: cuts a batch into tasks and, if there are too few of them, each task into partitions.
#pragma once

#include "cpu/kv_cache.h"

namespace svc::cpu {

/// Memory that attention calls reuse; it grows to the largest task and batch so far.
struct AttentionMemory {
  std::vector<Pages> scratch;
  Pages partials;
};

/// q [rows, heads * headDim] f32 -> out [rows, heads * headDim] in the cache's format, its padding cleared.
/// `sinks` [heads] may be null.
void runAttention(ThreadPool&, const KernelSet&, AttentionMemory&, const StepInputs&, const AttentionOptions&,
                  const float* sinks, Rows q, Rows out);

}  // namespace svc::cpu
