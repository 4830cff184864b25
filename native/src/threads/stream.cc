// Both sides look at their counter for a while before they sleep, and wake the other only where it sleeps. Each first
// says that it sleeps, then looks once more; the other first counts, then looks whether somebody sleeps.

#include "threads/stream.h"

#include <chrono>
#include <utility>

#include "threads/float_mode.h"
#include "threads/own_thread.h"
#include "threads/waiting.h"

namespace svc {

using Clock = std::chrono::steady_clock;

Stream::Stream() {
  const SignalsBlocked inherited;
  thread_ = std::thread([this] { loop(); });
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
  const uint64_t place = recorded_.load(std::memory_order_relaxed) + 1;
  while (place > kMostWaiting && !awaitRun(place - kMostWaiting, kLongWait)) continue;
  commands_[place % kMostWaiting] = std::move(command);
  recorded_.store(place);
  if (isSleeping_.load()) {
    const std::lock_guard lock(mutex_);
    hasWork_.notify_one();
  }
  return place;
}

bool Stream::await(uint64_t place, Duration atMost) {
  if (!awaitRun(place, atMost)) return false;
  if (hasFailed_.load()) std::rethrow_exception(failure_);
  return true;
}

bool Stream::awaitRun(uint64_t place, Duration atMost) {
  if (spinUntil([&] { return hasRun(place); })) return true;
  std::unique_lock lock(mutex_);
  awaited_.store(place);
  const bool isThere = hasProgress_.wait_for(lock, atMost, [&] { return run_.load() >= place; });
  awaited_.store(kNobodyWaits);
  return isThere;
}

void Stream::loop() {
  nameThread("svc-kernel");
  const FlushDenormals mode;
  for (uint64_t place = 1; awaitRecorded(place); ++place) {
    const auto start = Clock::now();
    execute(commands_[place % kMostWaiting]);
    const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
    busyNanoseconds_.store(busyNanoseconds_.load(std::memory_order_relaxed) + took, std::memory_order_relaxed);
    run_.store(place);
    if (place >= awaited_.load()) {
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

/// False where the stream ends.
bool Stream::awaitRecorded(uint64_t place) {
  const auto isReady = [&] { return recorded_.load() >= place || stopping_.load(); };
  if (!spinUntil(isReady)) {
    std::unique_lock lock(mutex_);
    isSleeping_.store(true);
    hasWork_.wait(lock, isReady);
    isSleeping_.store(false);
  }
  return !stopping_.load();
}

}  // namespace svc
