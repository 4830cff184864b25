// KV memory of a GPU whose blocks go to other instances, and the copies between it, other GPUs and the host.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "cuda/kernels.h"
#include "cuda/memory.h"
#include "memory/shared_memory.h"

namespace svc::cuda {

/// It has the device opened for itself: a transfer may go on when the backend is freed.
class TransferMemory final : public SharedDeviceMemory, public std::enable_shared_from_this<TransferMemory> {
 public:
  /// `driver` and `kernels` name files, `ordinal` the GPU. Zeroed when this returns. Throws Unavailable, and DriverError where the GPU has no room.
  TransferMemory(std::string driver, std::string kernels, int ordinal, size_t bytes);
  ~TransferMemory() override { device_.tryToEnter(); }

  const Device& device() const { return device_; }
  /// The kernel that copies pieces. Throws Unavailable where the file of kernels has none for this GPU.
  Function copyPieces() const;

  DeviceAddress address() const override { return memory_.address(); }
  std::unique_ptr<CopyLane> openLane(size_t pinnedBytes) const override;
  std::shared_ptr<const SharedDeviceMemory> allocate(size_t bytes) const override;
  std::shared_ptr<const DevicePairs> openPairs(const std::string& library, int channels) const override;
  int openToRead() const override { return memory_.openToRead(); }
  std::unique_ptr<const ForeignDeviceMemory> map(int descriptor, size_t bytes) const override;

 private:
  const std::string driver_, kernelsPath_;
  const Device device_;
  const SharedRange memory_;
  mutable std::mutex mutex_;
  /// Loaded when pieces are first copied by a kernel.
  mutable std::optional<Kernels> kernels_;
};

}  // namespace svc::cuda
