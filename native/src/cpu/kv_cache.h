// The paged KV memory, and storing into it.
#pragma once

#include <memory>

#include "cpu/products.h"
#include "memory/shared_pages.h"

namespace svc::cpu {

struct KvCache {
  KvLayout layout;
  DType dtype;
  int layers;
  int blocks;
  int kvHeads;
  /// [layer][block], each `layout.blockBytes`; zeroed, taken from the system when first written.
  char* data;
  /// What holds the bytes: one of the two.
  Pages own;
  std::shared_ptr<SharedPages> shared;

  char* layer(int index) const { return data + static_cast<size_t>(index) * blocks * layout.blockBytes; }
};

/// `isShared`: whether other processes can be given the memory to read.
KvCache makeKvCache(int layers, int blocks, int blockSize, int kvHeads, int headDim, DType, bool isShared);

/// k, v [tokens, kvHeads * headDim] f32 -> slots of a layer; slot = block * blockSize + offset.
void storeKv(ThreadPool&, const KernelSet&, const KvCache&, int layer, Rows k, Rows v, const int32_t* slots);

}  // namespace svc::cpu
