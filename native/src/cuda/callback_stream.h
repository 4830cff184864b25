// Calls of the host between the ops of another stream, which does not wait for them.
#pragma once

#include <functional>
#include <memory>

#include "cuda/event.h"

namespace svc::cuda {

class CallbackStream {
 public:
  explicit CallbackStream(const Device& device) : driver_(device.driver()), before_(device) {
    driver_.check(driver_.cuStreamCreate(&stream_, kStreamNonBlocking), "make a stream");
  }
  /// Waits for the calls.
  ~CallbackStream() {
    driver_.cuStreamSynchronize(stream_);
    driver_.cuStreamDestroy_v2(stream_);
  }
  CallbackStream(const CallbackStream&) = delete;
  CallbackStream& operator=(const CallbackStream&) = delete;

  /// Calls `body`, on a thread of the driver, when all that is in `ops` has run, and after the calls before.
  void callAfter(StreamHandle ops, std::function<void()> body) {
    // A wait is for the record before it: the next one does not disturb it.
    before_.record(ops);
    before_.letWait(stream_);
    auto owned = std::make_unique<std::function<void()>>(std::move(body));
    const HostFunction call = [](void* data) {
      const std::unique_ptr<std::function<void()>> taken(static_cast<std::function<void()>*>(data));
      (*taken)();
    };
    driver_.check(driver_.cuLaunchHostFunc(stream_, call, owned.get()), "call the host");
    owned.release();
  }

 private:
  const Driver& driver_;
  Event before_;
  StreamHandle stream_ = nullptr;
};

}  // namespace svc::cuda
