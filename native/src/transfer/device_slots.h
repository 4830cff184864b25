// Memory of devices for blocks that come from others. A slot has a place on the device of each part, for what the part holds of a block.
#pragma once

#include <memory>
#include <vector>

#include "transfer/kv_parts.h"

namespace svc::transfer {

class DeviceSlots {
 public:
  /// Throws std::runtime_error where a device has no room.
  DeviceSlots(const KvParts& memory, size_t count) : count_(count) {
    if (count == 0) return;
    for (const KvPart& part : memory.all()) {
      const KvMemory& own = part.memory();
      bytes_.push_back(own.rows * own.layerBlockBytes);
      areas_.push_back(own.memory.device->allocate(count * bytes_.back()));
    }
  }

  bool has(size_t slot) const { return slot < count_; }
  DeviceAddress place(size_t part, size_t slot) const { return areas_[part]->address() + slot * bytes_[part]; }

 private:
  const size_t count_;
  /// [parts] Bytes of a slot, and the memory of all.
  std::vector<size_t> bytes_;
  std::vector<std::shared_ptr<const SharedDeviceMemory>> areas_;
};

}  // namespace svc::transfer
