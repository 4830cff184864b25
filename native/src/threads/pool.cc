// A job is open while its caller still draws tickets. A worker that wakes too late finds the job closed and waits for the
// next one, so the caller never waits for a worker that has not begun.

#include "threads/pool.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

#include "threads/float_mode.h"
#include "threads/start_thread.h"
#include "threads/thread_name.h"
#include "threads/waiting.h"

namespace svc {
namespace {

/// How long the caller spins for workers with a last task before it offers its core to them.
constexpr int kJoinPauses = 2000;

long futex(std::atomic<uint32_t>* word, int operation, uint32_t value) {
  return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

}  // namespace

ThreadPool::ThreadPool(int threads, const ThreadCpus& cpus) : threads_(threads) {
  const SignalsBlocked inherited;
  try {
    for (int thread = 1; thread < threads; ++thread) {
      workers_.push_back(startThread([this, thread, cpus] {
        bindThread(cpus, thread);
        workerLoop(thread);
      }));
    }
  } catch (...) {
    // Threads that nobody has joined would end the process.
    end();
    throw;
  }
}

ThreadPool::~ThreadPool() { end(); }

void ThreadPool::end() {
  stopping_.store(true);
  epoch_.fetch_add(1);
  futex(&epoch_, FUTEX_WAKE, INT_MAX);
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::fork(int tasks, Function function, const void* context) {
  job_ = {function, context, tasks};
  ticket_.store(0, std::memory_order_relaxed);
  gate_.store(kOpen, std::memory_order_release);
  epoch_.fetch_add(1);
  if (sleepers_.load() > 0) futex(&epoch_, FUTEX_WAKE, INT_MAX);
  work(0);
  gate_.fetch_and(~kOpen, std::memory_order_acq_rel);
  for (int pauses = 0; gate_.load(std::memory_order_acquire) != 0; ++pauses) {
    if (pauses < kJoinPauses) pauseCore();
    else sched_yield();
  }
}

void ThreadPool::work(int thread) {
  const Job job = job_;
  for (;;) {
    const int task = ticket_.fetch_add(1, std::memory_order_relaxed);
    if (task >= job.tasks) return;
    job.function(job.context, task, thread);
  }
}

void ThreadPool::workerLoop(int thread) {
  nameThread("svc-kernel");
  FlushDenormals mode;
  uint32_t seen = 0;
  for (;;) {
    seen = awaitEpoch(seen);
    if (stopping_.load()) return;
    if (!join()) continue;
    work(thread);
    gate_.fetch_sub(1, std::memory_order_release);
  }
}

bool ThreadPool::join() {
  uint32_t gate = gate_.load(std::memory_order_acquire);
  while ((gate & kOpen) != 0) {
    if (gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acquire)) return true;
  }
  return false;
}

uint32_t ThreadPool::awaitEpoch(uint32_t seen) {
  uint32_t epoch = seen;
  const auto hasChanged = [&] { return (epoch = epoch_.load(std::memory_order_acquire)) != seen; };
  if (spinUntil(hasChanged)) return epoch;
  sleepers_.fetch_add(1);
  epoch = epoch_.load();
  while (epoch == seen) {
    futex(&epoch_, FUTEX_WAIT, seen);
    epoch = epoch_.load();
  }
  sleepers_.fetch_sub(1);
  return epoch;
}

}  // namespace svc
