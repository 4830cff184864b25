// Weights on their way to a GPU: threads fill pinned memory while the GPU copies what they filled before.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>

#include "cuda/memory.h"
#include "threads/first_failure.h"
#include "threads/pool.h"

namespace svc::cuda {

/// One thread uses it. It ends after the streams that it copies on.
class Upload {
 public:
  explicit Upload(const Device& device) : device_(device) {}

  int threads() const { return pool_.threads(); }
  /// Copies `count` items of `bytes` bytes each to `to`, behind each other. `fill(item, thread, at)` writes an item, which is zero before, on any
  /// of the threads; the first exception of theirs is thrown.
  template <class Fill>
  void run(DeviceAddress to, size_t bytes, int count, StreamHandle stream, const Fill& fill) {
    reserve(bytes, stream);
    const int atOnce = static_cast<int>(std::clamp<size_t>(halfBytes_ / bytes, 1, INT32_MAX));
    for (int first = 0; first < count; first += atOnce) {
      const int some = std::min(atOnce, count - first);
      char* const half = memory_->data() + (isSecond_ ? halfBytes_ : 0);
      FirstFailure failure;
      pool_.run(some, [&](int item, int thread) {
        failure.guard([&] {
          char* const at = half + bytes * item;
          std::memset(at, 0, bytes);
          fill(first + item, thread, at);
        });
      });
      rethrow(failure, stream);
      copy(to + bytes * first, half, bytes * some, stream);
    }
  }

 private:
  /// Two halves, each for an item at least.
  void reserve(size_t bytes, StreamHandle stream);
  /// Begins to copy, once the copy from the other half is done.
  void copy(DeviceAddress to, const char* half, size_t bytes, StreamHandle stream);
  /// Once nothing is copied any more: the weight's memory goes with the exception.
  void rethrow(const FirstFailure& failure, StreamHandle stream);
  static int readers();

  const Device& device_;
  ThreadPool pool_{readers()};
  std::optional<PinnedMemory> memory_;
  size_t halfBytes_ = 0;
  bool isSecond_ = false;
};

}  // namespace svc::cuda
