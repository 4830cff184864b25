// Keeps the first exception of a pool's tasks for the thread that waits for them: a task itself must not throw.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>

namespace svc {

class FirstFailure {
 public:
  /// Runs `body`, unless a task has failed already.
  template <class Body>
  void guard(const Body& body) {
    if (hasFailed_.load(std::memory_order_relaxed)) return;
    try {
      body();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (failure_ == nullptr) failure_ = std::current_exception();
      hasFailed_.store(true, std::memory_order_relaxed);
    }
  }

  /// Rethrows it; to be called when all tasks are done.
  void rethrow() const {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr failure_;
  std::atomic<bool> hasFailed_{false};
};

}  // namespace svc
