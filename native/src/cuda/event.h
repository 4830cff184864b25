// A place in a stream that another stream, or the host, waits for.
#pragma once

#include "cuda/device.h"

namespace svc::cuda {

/// Belongs to the device that the calling thread uses when it is made, and is recorded in streams of that device only. The device outlives it.
class Event {
 public:
  explicit Event(const Device& device) : driver_(device.driver()) {
    driver_.check(driver_.cuEventCreate(&event_, kEventDisableTiming), "make an event");
  }
  ~Event() { driver_.cuEventDestroy_v2(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// After all that is in `stream`.
  void record(StreamHandle stream) { driver_.check(driver_.cuEventRecord(event_, stream), "record an event"); }
  /// What comes next in `stream`, of whatever device, waits for what was recorded last.
  void letWait(StreamHandle stream) const { driver_.check(driver_.cuStreamWaitEvent(stream, event_, 0), "wait for an event"); }
  /// Whether that has been reached; so where nothing was recorded. Throws DriverError where the device failed at what it was `doing`.
  bool isReached(const char* doing) const {
    const Result reached = driver_.cuEventQuery(event_);
    if (reached != kErrorNotReady) driver_.check(reached, doing);
    return reached == kSuccess;
  }
  /// Waits for it on the host.
  void synchronize() const noexcept { driver_.cuEventSynchronize(event_); }

 private:
  const Driver& driver_;
  EventHandle event_ = nullptr;
};

}  // namespace svc::cuda
