// Attention over all threads: cuts a batch into tasks and, where they are too few, a task into partitions.
#pragma once

#include "cpu/kv_cache.h"

namespace svc::cpu {

/// The sequences of a step, as in `AttentionBatch` of the op interface; already checked.
struct SequenceBatch {
  int sequences;
  const int32_t* queryStarts;
  const int32_t* contextLengths;
  const int32_t* blockTables;
  int maxBlocks;
};

/// Memory that attention calls reuse; grows to the largest task and batch seen.
struct AttentionMemory {
  std::vector<Pages> scratch;
  Pages partials;
};

/// q [rows, heads * headDim] f32 -> out [rows, heads * headDim] in the cache's format. `window` is kNoWindow for none.
void runAttention(ThreadPool&, const KernelSet&, AttentionMemory&, const KvCache&, int layer, const SequenceBatch&,
                  Rows q, int heads, float scale, int window, Rows out);

}  // namespace svc::cpu
