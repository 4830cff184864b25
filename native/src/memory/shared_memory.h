// Memory whose blocks go to other instances: pages of the host, or memory of a device that the host copies from and to.
#pragma once

#include <cstddef>
#include <memory>

#include "memory/shared_pages.h"

namespace svc {

/// Copies between the memory of a device and pinned memory of the host, in their order, beside whatever the device computes. One
/// thread uses it. All of it throws std::runtime_error where the device fails.
class CopyLane {
 public:
  virtual ~CopyLane() = default;
  /// Memory of the host: copies from and to other memory are not possible.
  virtual char* pinned() const = 0;
  /// From `offset` of the device's memory; returns before it is done.
  virtual void fetch(char* to, size_t offset, size_t bytes) = 0;
  /// To `offset` of the device's memory; returns before it is done.
  virtual void store(size_t offset, const char* from, size_t bytes) = 0;
  /// Waits for all copies so far, which have a deadline.
  virtual void finish() = 0;
};

/// Zeroed memory of a device, freed with its last user.
class SharedDeviceMemory {
 public:
  virtual ~SharedDeviceMemory() = default;
  virtual std::unique_ptr<CopyLane> openLane(size_t pinnedBytes) const = 0;
};

/// One of both, or none.
struct SharedMemory {
  std::shared_ptr<SharedPages> pages;
  std::shared_ptr<const SharedDeviceMemory> device;

  bool isNone() const { return pages == nullptr && device == nullptr; }
};

}  // namespace svc
