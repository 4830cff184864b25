// Recorder and runner both watch their counter for a while before they sleep, and wake the other only if it sleeps. No
// wake-up is lost: a thread sets its flag before it looks at the counter for the last time, and the other thread counts
// before it looks at the flag.

#include "threads/stream.h"

#include <chrono>
#include <utility>

#include "threads/float_mode.h"
#include "threads/start_thread.h"
#include "threads/thread_name.h"
#include "threads/waiting.h"

namespace svc {

using Clock = std::chrono::steady_clock;

Stream::Stream(const ThreadCpus& cpus) {
  const SignalsBlocked inherited;
  thread_ = startThread([this, cpus] {
    bindThread(cpus, 0);
    loop();
  });
}

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    stopping_.store(true);
  }
  hasWork_.notify_one();
  thread_.join();
}

uint64_t Stream::record(Command command) {
  const uint64_t position = recorded_.load(std::memory_order_relaxed) + 1;
  while (position > kMostWaiting && !awaitRun(position - kMostWaiting, kLongWait)) continue;
  commands_[position % kMostWaiting] = std::move(command);
  recorded_.store(position);
  if (isSleeping_.load()) {
    const std::lock_guard lock(mutex_);
    hasWork_.notify_one();
  }
  return position;
}

bool Stream::await(uint64_t position, Duration atMost) {
  if (!awaitRun(position, atMost)) return false;
  if (hasFailed_.load()) std::rethrow_exception(failure_);
  return true;
}

bool Stream::awaitRun(uint64_t position, Duration atMost) {
  if (spinUntil([&] { return hasRun(position); })) return true;
  std::unique_lock lock(mutex_);
  awaited_.store(position);
  const bool isThere = hasProgress_.wait_for(lock, atMost, [&] { return run_.load() >= position; });
  awaited_.store(kNobodyWaits);
  return isThere;
}

void Stream::loop() {
  nameThread("svc-kernel");
  const FlushDenormals mode;
  for (uint64_t position = 1; awaitRecorded(position); ++position) {
    const auto start = Clock::now();
    execute(commands_[position % kMostWaiting]);
    const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
    busyNanoseconds_.store(busyNanoseconds_.load(std::memory_order_relaxed) + took, std::memory_order_relaxed);
    run_.store(position);
    if (position >= awaited_.load()) {
      const std::lock_guard lock(mutex_);
      hasProgress_.notify_one();
    }
  }
}

void Stream::execute(Command& command) {
  try {
    if (!hasFailed_.load()) command();
  } catch (...) {
    failure_ = std::current_exception();
    hasFailed_.store(true);
  }
  command = nullptr;
}

/// False if the stream ends.
bool Stream::awaitRecorded(uint64_t position) {
  const auto isReady = [&] { return recorded_.load() >= position || stopping_.load(); };
  if (!spinUntil(isReady)) {
    std::unique_lock lock(mutex_);
    isSleeping_.store(true);
    hasWork_.wait(lock, isReady);
    isSleeping_.store(false);
  }
  return !stopping_.load();
}

}  // namespace svc
