// Memory whose blocks go to other instances: pages of the host, or memory of a device that the host copies from and to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>

#include "memory/device_pair.h"
#include "memory/piece.h"
#include "memory/shared_pages.h"

namespace svc {

/// Copies on a device, and between it and pinned memory of the host, in their order, beside whatever the device computes. One
/// thread uses it. All of it throws std::runtime_error where the device fails.
class CopyLane {
 public:
  virtual ~CopyLane() = default;
  /// Memory of the host: copies from and to other memory are not possible.
  virtual char* pinned() const = 0;
  /// From the device's memory; returns before it is done.
  virtual void fetch(char* to, DeviceAddress from, size_t bytes) = 0;
  /// To the device's memory; returns before it is done.
  virtual void store(DeviceAddress to, const char* from, size_t bytes) = 0;
  /// Copies pieces from places of the device to others, or to none, and sums them; mostly returns before it is done. The adjacent tiles of each
  /// head are multiples of 16 bytes.
  virtual void copyPieces(const PieceShape& shape, const Pieces& from, const Pieces& to) = 0;
  /// Waits for all copies so far, which have a deadline. @returns the sums of the pieces since the last call, in their order, until the next call:
  /// that of the longs of each, the i-th times 2 * i + 1, modulo 2^64, folded. Where it throws their sums are lost.
  virtual std::span<const uint32_t> finish() = 0;
  /// Waits for copies of which nobody wants to know whether they were made.
  void abandon() noexcept {
    try {
      finish();
    } catch (const std::exception&) {
    }
  }
};

/// Memory of a device that another process of this host owns, mapped to read.
class ForeignDeviceMemory {
 public:
  virtual ~ForeignDeviceMemory() = default;
  virtual DeviceAddress address() const = 0;
};

/// Zeroed memory of a device, freed with its last user.
class SharedDeviceMemory {
 public:
  virtual ~SharedDeviceMemory() = default;
  virtual DeviceAddress address() const = 0;
  virtual std::unique_ptr<CopyLane> openLane(size_t pinnedBytes) const = 0;
  /// More memory of the same device. Throws std::runtime_error where it has no room.
  virtual std::shared_ptr<const SharedDeviceMemory> allocate(size_t bytes) const = 0;
  /// Sends to and receives from devices of other processes over NCCL, of which `library` is a file. `channels` of 0 are NCCL's own choice. Throws
  /// std::runtime_error where it is not there.
  virtual std::shared_ptr<const DevicePairs> openPairs(const std::string& library, int channels) const = 0;
  /// A new read-only descriptor, by which another process of this host can map it, or -1 where there can be none. The caller closes it.
  virtual int openToRead() const = 0;
  /// Maps such memory of another process. Does not close `descriptor`. Throws std::runtime_error where it is not of `bytes` bytes, or of a device
  /// that this one does not read.
  virtual std::unique_ptr<const ForeignDeviceMemory> map(int descriptor, size_t bytes) const = 0;
};

/// One of both, or none.
struct SharedMemory {
  std::shared_ptr<SharedPages> pages;
  std::shared_ptr<const SharedDeviceMemory> device;

  bool isNone() const { return pages == nullptr && device == nullptr; }
};

}  // namespace svc
