// Events of the transfer threads, queued for the JavaScript thread.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace svc::transfer {

enum class EventKind { LinkUp, LinkDown, Sent, SendClosed, Received, Corrupt, ReceiveClosed, Loaded };

struct Event {
  EventKind kind;
  /// The link, send, ticket or load that it is about, by its kind.
  uint64_t id;
  std::string reason = {};
  bool isIntact = false;
};

class EventQueue {
 public:
  /// Calls `signal`, on any thread, when the first event enters the empty queue.
  explicit EventQueue(std::function<void()> signal) : signal_(std::move(signal)) {}

  void push(Event event) {
    bool wasEmpty;
    {
      const std::lock_guard lock(mutex_);
      wasEmpty = events_.empty();
      events_.push_back(std::move(event));
    }
    if (wasEmpty) signal_();
  }

  std::vector<Event> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(events_, {});
  }

 private:
  std::function<void()> signal_;
  std::mutex mutex_;
  std::vector<Event> events_;
};

}  // namespace svc::transfer
