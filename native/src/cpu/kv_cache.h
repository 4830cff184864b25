// The paged KV memory, and storing into it.
#pragma once

#include "cpu/products.h"

namespace svc::cpu {

struct KvCache {
  KvLayout layout;
  DType dtype;
  int layers;
  int blocks;
  int kvHeads;
  /// [layer][block], each `layout.blockBytes`; zeroed, taken from the system when first written.
  Pages data;

  char* layer(int index) const {
    return data.data() + static_cast<size_t>(index) * blocks * layout.blockBytes;
  }
};

KvCache makeKvCache(int layers, int blocks, int blockSize, int kvHeads, int headDim, DType);

/// k, v [tokens, kvHeads * headDim] f32 -> slots of a layer; slot = block * blockSize + offset.
void storeKv(ThreadPool&, const KernelSet&, const KvCache&, int layer, Rows k, Rows v, const int32_t* slots);

}  // namespace svc::cpu
