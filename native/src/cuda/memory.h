// Memory of a GPU and pinned memory of the host, each freed by its owner. A device outlives what is allocated on it.
#pragma once

#include <utility>
#include <vector>

#include "cuda/device.h"

namespace svc::cuda {

class DeviceMemory {
 public:
  DeviceMemory() = default;
  /// Throws DriverError where the GPU has no room.
  DeviceMemory(const Device& device, size_t bytes);
  DeviceMemory(DeviceMemory&& other) noexcept { swap(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceMemory();

  DeviceAddress address() const { return address_; }
  /// For the arguments of kernels, which alone may read it.
  template <class T>
  T* at(size_t offset = 0) const {
    return reinterpret_cast<T*>(address_ + offset);
  }
  size_t bytes() const { return bytes_; }

 private:
  void swap(DeviceMemory& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
  }

  const Driver* driver_ = nullptr;
  DeviceAddress address_ = 0;
  size_t bytes_ = 0;
};

/// Memory in pages that processes of one host may have in common: the physical memory lives as long as one of them has it mapped.
class SharedRange {
 public:
  /// New memory of at least `bytes` bytes. Throws DriverError where the GPU has no room.
  SharedRange(const Device& device, size_t bytes);
  /// That of another process, to read. Throws DriverError where `descriptor` is not of as many bytes, or of a GPU that this one cannot read.
  SharedRange(const Device& device, int descriptor, size_t bytes);
  ~SharedRange();
  SharedRange(const SharedRange&) = delete;
  SharedRange& operator=(const SharedRange&) = delete;

  DeviceAddress address() const { return address_; }
  /// A new descriptor, which the caller closes; -1 where there can be none.
  int openToRead() const;

 private:
  /// Gives `handle` addresses; the mapping keeps it.
  void map(AllocationHandle handle, const AllocationProperties& properties, int access);

  const Driver& driver_;
  size_t bytes_ = 0;
  AllocationHandle handle_ = 0;
  bool hasDescriptor_ = false;
  DeviceAddress address_ = 0;
};

/// Pages that the GPU copies from and to while the host goes on. Kernels may write into it.
class PinnedMemory {
 public:
  PinnedMemory(const Device& device, size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  char* data() const { return static_cast<char*>(data_); }

 private:
  const Driver& driver_;
  void* data_ = nullptr;
};

/// Memory of the activations: one reserved range of addresses, made usable from the front, so that growing moves no tensor.
class DeviceArena {
 public:
  explicit DeviceArena(const Device& device);
  ~DeviceArena();
  DeviceArena(const DeviceArena&) = delete;
  DeviceArena& operator=(const DeviceArena&) = delete;

  DeviceAddress address() const { return address_; }
  size_t capacity() const { return capacity_; }
  /// Makes at least `bytes` usable. Throws std::runtime_error past the range, DriverError where the GPU has no room.
  void grow(size_t bytes);

 private:
  /// `bytes` more of memory behind what is usable.
  void map(size_t bytes);

  const Driver& driver_;
  const AllocationProperties properties_;
  size_t step_ = 0;
  DeviceAddress address_ = 0;
  size_t capacity_ = 0;
  /// Mapped one after the other.
  std::vector<size_t> mapped_;
};

}  // namespace svc::cuda
