// A fork-join pool: `run` splits one op into tasks; caller and workers take their numbers from a shared counter.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "threads/binding.h"

namespace svc {

class ThreadPool {
 public:
  /// `threads` counts the caller: a pool of 1 starts none. Throws std::runtime_error where the system gives fewer.
  explicit ThreadPool(int threads, const ThreadCpus& cpus = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  /// Calls body(task, thread) once for each task in [0, tasks), in any order, and returns when all are done. The
  /// caller is thread 0. `body` must not throw and must not call `run`.
  template <class Body>
  void run(int tasks, const Body& body) {
    if (threads_ == 1 || tasks <= 1) {
      for (int task = 0; task < tasks; ++task) body(task, 0);
      return;
    }
    fork(tasks, [](const void* context, int task, int thread) { (*static_cast<const Body*>(context))(task, thread); },
         &body);
  }

 private:
  using Function = void (*)(const void* context, int task, int thread);

  struct Job {
    Function function = nullptr;
    const void* context = nullptr;
    int tasks = 0;
  };

  void end();
  void fork(int tasks, Function function, const void* context);
  void work(int thread);
  void workerLoop(int thread);
  uint32_t awaitEpoch(uint32_t seen);
  bool join();

  /// Bit of `gate_`: workers may still join the job. The bits below it count the workers that have.
  static constexpr uint32_t kOpen = 1u << 31;

  const int threads_;
  Job job_;
  alignas(64) std::atomic<int> ticket_{0};
  alignas(64) std::atomic<uint32_t> gate_{0};
  alignas(64) std::atomic<uint32_t> epoch_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> workers_;
};

}  // namespace svc
