// One end of a link between two devices: a thread of its own, which may wait for the other one, and the socket beside it, which tells
// when that has gone.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "transfer/descriptor.h"

namespace svc::transfer {

class PairLink : public std::enable_shared_from_this<PairLink> {
 public:
  using Body = std::function<void(PairLink& link)>;
  /// Runs `body` on the thread until it returns or throws, then calls `onEnd` there with the reason. What both use must live until
  /// `awaitEnd` has returned. Throws std::runtime_error where the system has no descriptor or thread left.
  static std::shared_ptr<PairLink> start(Body body, std::function<void(const std::string& reason)> onEnd);

  /// Lets `awaitWork` return. From any thread.
  void wake();
  /// The same, and everything else that waits ends with an error.
  void end();
  /// Waits, after `end`, until the thread uses nothing more. Where a library does not return it is left alone after a deadline.
  void awaitEnd();
  bool hasEnded() const;

  // On the thread. All throw std::runtime_error: at the end of the link or of the connection, or when a deadline has passed.
  /// Watches `socket` from now on, which is connected, or connecting.
  void use(Descriptor socket);
  void write(const void* data, size_t size);
  void read(void* data, size_t size);
  /// Waits for `kReady`; what else comes is why the other end refuses.
  void awaitAnswer();
  /// Tells the other end why, and throws that.
  [[noreturn]] void refuse(const std::string& reason);
  /// Waits, without a deadline, for bytes to read.
  void awaitBytes();
  /// Waits, without a deadline, until `wake`.
  void awaitWork();
  /// Whether nothing is to be waited for any more.
  bool shouldStop() const;
  /// Runs `body` unless the owner has left the thread alone: it may use what is the owner's.
  bool withOwner(const std::function<void()>& body);

 private:
  using Clock = std::chrono::steady_clock;

  PairLink();
  /// True when `events` of the socket, or none of it, have come; false when `wake` was called.
  bool await(short events, Clock::time_point deadline);
  void throwIfEnded() const;
  /// Why the other end has closed the connection.
  [[noreturn]] void throwLost() const;

  Descriptor socket_;
  const Descriptor wake_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  bool isEnding_ = false, hasEnded_ = false;
  std::mutex ownerMutex_;
  bool isAbandoned_ = false;
};

}  // namespace svc::transfer
