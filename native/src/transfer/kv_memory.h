// The KV memory as a transfer sees it: layer blocks, [layer][block], each contiguous.
#pragma once

#include <memory>

#include "memory/shared_pages.h"

namespace svc::transfer {

struct KvMemory {
  KvMemory(std::shared_ptr<SharedPages> pages, uint32_t layers, uint32_t blocks, size_t layerBlockBytes)
      : pages(std::move(pages)), layers(layers), blocks(blocks), layerBlockBytes(layerBlockBytes) {}

  /// Keeps the bytes alive while a transfer uses them, even if their backend is freed.
  std::shared_ptr<SharedPages> pages;
  uint32_t layers;
  uint32_t blocks;
  size_t layerBlockBytes;

  char* layerBlock(uint32_t layer, uint32_t block) const {
    return pages->data() + (static_cast<size_t>(layer) * blocks + block) * layerBlockBytes;
  }
};

}  // namespace svc::transfer
