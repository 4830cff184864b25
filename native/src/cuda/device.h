// A GPU and its primary context, which everything of this process on that GPU has in common.
#pragma once

#include <string>

#include "cuda/driver.h"

namespace svc::cuda {

struct MemoryInfo {
  size_t free, total;
};

/// One of the GPUs that the driver shows: CUDA_VISIBLE_DEVICES chooses them. The thread that makes it calls all else, and others, or the same one after
/// it has used another device, after `enter`.
class Device {
 public:
  /// `driver` names its library; `ordinal` counts the GPUs that it shows. Throws Unavailable where there is no such GPU that svc can compute on.
  Device(const std::string& driver, int ordinal);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Driver& driver() const { return driver_; }
  DeviceOrdinal ordinal() const { return ordinal_; }
  Context context() const { return context_; }
  /// GPUs that the driver shows.
  int count() const;
  /// Lets the calling thread, too, call what belongs to this device.
  void enter() const;
  /// The same for destructors: where it fails, so does what follows.
  void tryToEnter() const noexcept { driver_.cuCtxSetCurrent(context_); }
  /// Lets this device, which the calling thread uses, copy straight from memory of `other` where the two are connected: elsewhere the driver takes copies
  /// through the host.
  void reach(const Device& other) const noexcept;
  /// `NVIDIA H100 80GB HBM3`
  std::string name() const;
  /// Major * 10 + minor: 90 is Hopper.
  int computeCapability() const;
  MemoryInfo memory() const;
  int multiprocessors() const { return attribute(kAttributeMultiprocessors); }
  /// Shared memory that one block of threads may have.
  uint32_t sharedBytes() const { return static_cast<uint32_t>(attribute(kAttributeSharedBytesOptIn)); }
  /// Whether other processes of this host can map its memory, by a descriptor that they are given.
  bool sharesMemory() const { return attribute(kAttributeMemoryByDescriptor) != 0; }

 private:
  int attribute(int which) const;

  const Driver driver_;
  DeviceOrdinal ordinal_ = 0;
  Context context_ = nullptr;
};

}  // namespace svc::cuda
