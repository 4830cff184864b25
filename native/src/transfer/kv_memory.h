// The KV memory as a transfer sees it: layer blocks, [row][block], each contiguous.
#pragma once

#include <utility>

#include "memory/layer_block_shape.h"
#include "memory/shared_memory.h"

namespace svc::transfer {

/// Of one part of an instance: its layers and heads only.
struct KvMemory {
  KvMemory(SharedMemory memory, uint32_t rows, uint32_t blocks, LayerBlockShape shape)
      : memory(std::move(memory)), rows(rows), blocks(blocks), shape(std::move(shape)), layerBlockBytes(this->shape.bytes()) {}

  /// Keeps the bytes alive while a transfer uses them, even if their backend is freed.
  SharedMemory memory;
  /// Of a block.
  uint32_t rows;
  uint32_t blocks;
  LayerBlockShape shape;
  size_t layerBlockBytes;

  bool isOfDevice() const { return memory.device != nullptr; }
  size_t offsetOf(uint32_t row, uint32_t block) const {
    return (static_cast<size_t>(row) * blocks + block) * layerBlockBytes;
  }
  DeviceAddress deviceAddress(uint32_t row, uint32_t block) const { return memory.device->address() + offsetOf(row, block); }
  /// Where the host has it; not of a device.
  char* layerBlock(uint32_t row, uint32_t block) const { return memory.pages->data() + offsetOf(row, block); }
};

}  // namespace svc::transfer
