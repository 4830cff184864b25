// KV memory of a GPU whose blocks go to other instances, and the copies between it and the host.
#pragma once

#include <memory>

#include "cuda/memory.h"
#include "memory/shared_memory.h"

namespace svc::cuda {

/// It has the device opened for itself: a transfer may go on when the backend is freed.
class TransferMemory final : public SharedDeviceMemory, public std::enable_shared_from_this<TransferMemory> {
 public:
  /// Zeroed when this returns. Throws Unavailable, and DriverError where the GPU has no room.
  TransferMemory(const std::string& driver, size_t bytes);

  DeviceAddress address() const { return memory_.address(); }
  const Device& device() const { return device_; }
  std::unique_ptr<CopyLane> openLane(size_t pinnedBytes) const override;

 private:
  const Device device_;
  DeviceMemory memory_;
};

}  // namespace svc::cuda
