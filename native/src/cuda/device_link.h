// Hidden states on their way from the GPU of one stage to that of the next: the first one packs them into memory of its own, from which the second one
// copies them. One thread calls the ops of both stages, each after it has entered that stage's device.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "cuda/event.h"
#include "cuda/memory.h"
#include "stages/stage_link.h"

namespace svc::cuda {

class DeviceLink final : public StageLink {
 public:
  /// So many tensors may be on their way to `receiver`, which the calling thread uses. Outlives the ops that copy from it.
  DeviceLink(std::shared_ptr<const Device> receiver, size_t capacity);

  /// Memory for the next tensor of so many bytes, on `sender`, which the calling thread uses: its ops write there, then comes `send`. Throws
  /// std::runtime_error where as many are on their way as may be.
  char* room(const std::shared_ptr<const Device>& sender, size_t bytes);
  /// The tensor f32 [rows, cols], which the ops so far in `stream` have written.
  void send(int64_t rows, int64_t cols, StreamHandle stream);
  /// Appends to `stream` of the receiver that it waits for the oldest tensor on its way and copies it to `to`, one row behind the other. Throws
  /// std::runtime_error where none was sent, or one of another shape.
  void receive(DeviceAddress to, int64_t rows, int64_t cols, StreamHandle stream);
  /// Nobody waits for it on the host.
  void close(const std::string&) override {}

 private:
  /// Memory of one tensor, until it has been copied.
  struct Slot {
    explicit Slot(std::shared_ptr<const Device> of) : sender(std::move(of)), sent(*sender) {}
    /// Waits for ops that write into its memory.
    ~Slot();

    const std::shared_ptr<const Device> sender;
    DeviceMemory memory;
    Event sent;
    int64_t rows = 0, cols = 0;
  };

  size_t capacity() const { return taken_.size(); }

  const std::shared_ptr<const Device> receiver_;
  /// [capacity] That the receiver has copied a slot.
  std::deque<Event> taken_;
  /// Taken in turn, the first of them at the first tensors.
  std::deque<Slot> slots_;
  size_t numSent_ = 0, numReceived_ = 0;
  /// A slot that is used again has room for the largest tensor so far: once each has been used, none grows.
  size_t largestBytes_ = 0;
};

}  // namespace svc::cuda
