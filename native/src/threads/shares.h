// Tasks that read memory one behind the other, shared so that each thread reads one long run.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace svc {

/// A thread takes the tasks of its own share in their order, then what others have left of theirs. Where threads took tasks in turn, each task would begin
/// with memory that nobody has brought nearer, and what is fetched ahead at its end would be for another thread.
class Shares {
 public:
  Shares(int tasks, int threads) : shares_(threads) {
    for (int i = 0; i < threads; ++i) {
      shares_[i].next = firstOf(i, tasks);
      shares_[i].end = firstOf(i + 1, tasks);
    }
  }

  /// A task that nobody has taken; to be called once for each that there is.
  int take(int thread) {
    for (size_t i = thread;; i = (i + 1) % shares_.size()) {
      Share& share = shares_[i];
      if (share.next.load(std::memory_order_relaxed) >= share.end) continue;
      const int task = share.next.fetch_add(1, std::memory_order_relaxed);
      if (task < share.end) return task;
    }
  }

 private:
  /// In a line of its own: mostly one thread writes there.
  struct alignas(64) Share {
    std::atomic<int> next;
    int end;
  };

  int firstOf(int thread, int tasks) const { return static_cast<int>(int64_t{tasks} * thread / static_cast<int64_t>(shares_.size())); }

  std::vector<Share> shares_;
};

}  // namespace svc
