// The pool's protocol: a job is open while its caller still draws tickets; a worker that comes late finds it closed
// and goes back to waiting, so nobody ever waits for a worker that has not begun.

#include "threads/pool.h"

#include <csignal>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>

#include "threads/float_mode.h"

namespace svc {
namespace {

using Clock = std::chrono::steady_clock;

/// How long a worker looks for the next op before it sleeps: longer than the gaps inside a forward pass.
constexpr auto kSpin = std::chrono::microseconds(80);
/// How long the caller spins for workers that hold a last task before it offers its core to them.
constexpr int kJoinPauses = 2000;

inline void pauseCore() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

long futex(std::atomic<uint32_t>* word, int operation, uint32_t value) {
  return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

/// Workers take no signals but those that their own instructions raise: the others are the main thread's.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGTRAP, SIGABRT}) sigdelset(&blocked, signal);
    pthread_sigmask(SIG_SETMASK, &blocked, &previous_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }

 private:
  sigset_t previous_;
};

}  // namespace

ThreadPool::ThreadPool(int threads) : threads_(threads) {
  SignalsBlocked inherited;
  for (int thread = 1; thread < threads; ++thread) workers_.emplace_back([this, thread] { workerLoop(thread); });
}

ThreadPool::~ThreadPool() {
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
  const auto deadline = Clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      const uint32_t epoch = epoch_.load(std::memory_order_acquire);
      if (epoch != seen) return epoch;
      pauseCore();
    }
  } while (Clock::now() < deadline);
  sleepers_.fetch_add(1);
  uint32_t epoch = epoch_.load();
  while (epoch == seen) {
    futex(&epoch_, FUTEX_WAIT, seen);
    epoch = epoch_.load();
  }
  sleepers_.fetch_sub(1);
  return epoch;
}

}  // namespace svc
