// Arrays that ops carry to the device and back. A parcel is pinned memory of the host and as much of the device: the host fills its
// part, one copy brings it over, and another brings back the results that a kernel leaves in it. Parcels are used again, so that steps allocate nothing.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "cuda/memory.h"

namespace svc::cuda {

class Staging;

/// Arrays of a parcel.
template <class T>
struct Slice {
  size_t offset;
  size_t count;
};

/// Pinned memory and device memory of one size.
struct StagingBlock {
  StagingBlock(const Device& device, size_t bytes) : host(device, bytes), device(device, bytes) {}

  PinnedMemory host;
  DeviceMemory device;
};

class Parcel {
 public:
  explicit Parcel(Staging& staging) : staging_(&staging) {}
  Parcel(Parcel&&) noexcept = default;
  Parcel& operator=(Parcel&&) = delete;
  ~Parcel();

  /// To bring over. The values are read by `send`.
  template <class T>
  Slice<T> in(const std::vector<T>& values) {
    return in(values.data(), values.size());
  }
  template <class T>
  Slice<T> in(const T* values, size_t count) {
    const Slice<T> slice = room<T>(count);
    sources_.push_back({values, slice.offset, count * sizeof(T)});
    sent_ = used_;
    return slice;
  }
  /// For a kernel to fill: asked for after all that is brought over.
  template <class T>
  Slice<T> out(size_t count) {
    return room<T>(count);
  }

  /// Takes memory for all slices, and fills that of the host.
  void fill();
  /// `fill`, then appends the copy to the device.
  void send(StreamHandle stream);
  /// The same into `memory`, which grows where it is too small: a parcel of the same slices is at the same addresses every time. The ops
  /// before may still read it; `awaitOps` waits for them.
  void sendTo(DeviceMemory& memory, const std::function<void()>& awaitOps, StreamHandle stream);
  /// Appends the copy of all that kernels fill back to the host.
  void fetch(StreamHandle stream);

  /// Once it is sent: for kernels.
  template <class T>
  T* device(Slice<T> slice) const {
    return slice.count == 0 ? nullptr : reinterpret_cast<T*>(address_ + slice.offset);
  }
  /// Once it is filled, or what was fetched is there.
  template <class T>
  T* host(Slice<T> slice) const {
    return reinterpret_cast<T*>(block_->host.data() + slice.offset);
  }

 private:
  struct Source {
    const void* values;
    size_t offset, bytes;
  };

  template <class T>
  Slice<T> room(size_t count) {
    constexpr size_t kAlignment = 16;
    const size_t offset = used_;
    used_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return {offset, count};
  }

  Staging* staging_;
  std::vector<Source> sources_;
  void copyTo(DeviceAddress address, StreamHandle stream);

  size_t sent_ = 0, used_ = 0;
  std::unique_ptr<StagingBlock> block_;
  /// Of the slices on the device.
  DeviceAddress address_ = 0;
};

/// Keeps blocks of parcels that are done. Their sizes are powers of 2.
class Staging {
 public:
  explicit Staging(const Device& device) : device_(device) {}

  std::unique_ptr<StagingBlock> take(size_t bytes);
  void give(std::unique_ptr<StagingBlock> block);
  /// At least `bytes`.
  DeviceMemory allocate(size_t bytes) const;
  const Driver& driver() const { return device_.driver(); }

 private:
  const Device& device_;
  /// By size.
  std::map<size_t, std::vector<std::unique_ptr<StagingBlock>>> spare_;
};

}  // namespace svc::cuda
