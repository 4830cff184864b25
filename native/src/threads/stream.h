// Commands that run one after the other on a thread of their own, while the thread that records them goes on. Only one
// thread may record.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace svc {

class Stream {
 public:
  using Command = std::function<void()>;
  using Duration = std::chrono::milliseconds;

  Stream();
  /// Ends after the command that is running; those after it are dropped.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Lets `command` run after all that were recorded before, and returns its position for `await`. Waits where
  /// `kMostWaiting` commands have not run yet.
  uint64_t record(Command command);
  /// The position of the last recorded command; 0 before the first.
  uint64_t lastPosition() const { return recorded_.load(std::memory_order_relaxed); }
  bool hasRun(uint64_t position) const { return run_.load(std::memory_order_acquire) >= position; }

  /// Waits until the command at `position` has run; false where it has not within `atMost`. Throws what a command threw:
  /// none after that one has run or will run.
  bool await(uint64_t position, Duration atMost);

  /// Runs `body` after all that were recorded before and waits for it; what it throws is thrown here alone.
  template <class Body>
  void run(const Body& body) {
    std::exception_ptr failure;
    const uint64_t position = record([&] {
      try {
        body();
      } catch (...) {
        failure = std::current_exception();
      }
    });
    while (!await(position, kLongWait)) continue;
    if (failure != nullptr) std::rethrow_exception(failure);
  }

  /// Time in which commands ran.
  double busySeconds() const { return static_cast<double>(busyNanoseconds_.load(std::memory_order_relaxed)) * 1e-9; }

 private:
  static constexpr uint64_t kMostWaiting = 4096;
  /// Any: commands end.
  static constexpr Duration kLongWait{1000};
  static constexpr uint64_t kNobodyWaits = UINT64_MAX;

  void loop();
  void execute(Command& command);
  bool awaitRecorded(uint64_t position);
  bool awaitRun(uint64_t position, Duration atMost);

  /// Positions count from 1; the command at `position` is at position % kMostWaiting.
  std::array<Command, kMostWaiting> commands_;
  alignas(64) std::atomic<uint64_t> recorded_{0};
  alignas(64) std::atomic<uint64_t> run_{0};
  std::atomic<int64_t> busyNanoseconds_{0};
  /// What a command threw; the stream's thread writes it once, before it says so.
  std::exception_ptr failure_;
  std::atomic<bool> hasFailed_{false};

  std::atomic<bool> stopping_{false};
  /// Whether the stream's thread sleeps; which position the recorder sleeps for.
  std::atomic<bool> isSleeping_{false};
  std::atomic<uint64_t> awaited_{kNobodyWaits};
  std::mutex mutex_;
  std::condition_variable hasWork_;
  std::condition_variable hasProgress_;
  std::thread thread_;
};

}  // namespace svc
