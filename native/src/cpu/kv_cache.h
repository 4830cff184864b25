// The paged KV memory, and storing into it.
#pragma once

#include "backend/backend.h"
#include "cpu/kernels.h"
#include "memory/pages.h"
#include "threads/pool.h"

namespace svc::cpu {

struct HostKvCache : KvCache {
  /// [layers]
  std::vector<KvLayout> layouts;
  /// [row][block], each `layerBlockBytes`; zeroed. The system gives the pages when they are first written. In `shared`
  /// or in `own`.
  char* data;
  Pages own;
  /// [layer][slot][width], the same way.
  Pages states;

  /// What a layer has of block 0.
  char* layer(int index) const {
    const LayerPlace& place = shape.layers.of[index];
    return data + static_cast<size_t>(place.row) * shape.blocks * layerBlockBytes + place.part * layouts[index].layerBytes;
  }

  /// What a layer keeps of the sequence in a slot, for an op.
  float* state(const StatePlace& place, int slot) const {
    float* const numbers = reinterpret_cast<float*>(states.data());
    return numbers + (int64_t{place.layer} * shape.states.slots + slot) * shape.states.width + place.first;
  }
};

/// `isShared`: whether other processes may map the memory to read it.
HostKvCache makeKvCache(const KvCacheShape&, bool isShared);

/// k, v [tokens, kvHeads * headDim] f32 -> slots of a layer; slot = block * blockSize + offset.
void runStoreKv(ThreadPool&, const KernelSet&, const HostKvCache&, int layer, Rows k, Rows v, const int32_t* slots);

}  // namespace svc::cpu
