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

#include "threads/binding.h"

namespace svc {

class Stream {
 public:
  using Command = std::function<void()>;
  using Duration = std::chrono::milliseconds;

  /// Its thread is number 0 of a backend. Throws std::runtime_error where the system gives none.
  explicit Stream(const ThreadCpus& cpus = {});
  /// Ends after the running command; drops the commands after it.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Records `command` to run after all earlier ones, and returns its position for `await`. Waits if `kMostWaiting`
  /// commands have not run yet.
  uint64_t record(Command command);
  /// The position of the last recorded command; 0 before the first.
  uint64_t lastPosition() const { return recorded_.load(std::memory_order_relaxed); }
  bool hasRun(uint64_t position) const { return run_.load(std::memory_order_acquire) >= position; }

  /// Waits until the command at `position` has run; false if it has not within `atMost`. Rethrows the exception of a
  /// command: no command after that one has run or will run.
  bool await(uint64_t position, Duration atMost);

  /// Runs `body` after all earlier commands and waits for it; only this call throws its exception.
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

  /// Time spent in commands.
  double busySeconds() const { return static_cast<double>(busyNanoseconds_.load(std::memory_order_relaxed)) * 1e-9; }

 private:
  static constexpr uint64_t kMostWaiting = 4096;
  /// Long enough for any number of commands: each of them ends.
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
  /// The exception of a command; the stream's thread writes it once, before it sets the flag.
  std::exception_ptr failure_;
  std::atomic<bool> hasFailed_{false};

  std::atomic<bool> stopping_{false};
  /// Whether the stream's thread sleeps, and the position that the recorder sleeps for.
  std::atomic<bool> isSleeping_{false};
  std::atomic<uint64_t> awaited_{kNobodyWaits};
  std::mutex mutex_;
  std::condition_variable hasWork_;
  std::condition_variable hasProgress_;
  std::thread thread_;
};

}  // namespace svc
