// Lets threads take tasks from shares of all sizes: prints how many shares were taken, or what was wrong with one.

#include "threads/shares.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <thread>

using namespace svc;

namespace {

/// Each thread takes `mostOf[thread]` tasks at most. @returns what each took, in its order.
std::vector<std::vector<int>> taken(int tasks, const std::vector<int>& mostOf) {
  const int threads = static_cast<int>(mostOf.size());
  Shares shares(tasks, threads);
  std::atomic<int> left{tasks};
  std::vector<std::vector<int>> tasksOf(threads);
  std::vector<std::thread> running;
  for (int thread = 0; thread < threads; ++thread) {
    running.emplace_back([&, thread] {
      while (static_cast<int>(tasksOf[thread].size()) < mostOf[thread] && left.fetch_sub(1) > 0) tasksOf[thread].push_back(shares.take(thread));
    });
  }
  for (std::thread& thread : running) thread.join();
  return tasksOf;
}

bool isEachTakenOnce(int tasks, const std::vector<std::vector<int>>& tasksOf) {
  std::vector<int> all;
  for (const std::vector<int>& own : tasksOf) all.insert(all.end(), own.begin(), own.end());
  std::sort(all.begin(), all.end());
  std::vector<int> expected(tasks);
  std::iota(expected.begin(), expected.end(), 0);
  return all == expected;
}

/// A thread that is alone takes its own share in order, then those behind it, and those before it last.
bool isInOrder(int tasks, int threads, int alone) {
  std::vector<int> mostOf(threads, 0);
  mostOf[alone] = tasks;
  const std::vector<int> own = taken(tasks, mostOf)[alone];
  const int first = tasks * alone / threads;
  for (int i = 0; i < tasks; ++i) {
    if (own[i] != (first + i) % tasks) return false;
  }
  return true;
}

}  // namespace

int main() {
  int numTaken = 0;
  for (int threads = 1; threads <= 6; ++threads) {
    for (int tasks = 1; tasks <= 40; ++tasks) {
      if (!isEachTakenOnce(tasks, taken(tasks, std::vector<int>(threads, tasks)))) return std::printf("%d tasks of %d threads: not each once\n", tasks, threads), 1;
      for (int alone = 0; alone < threads; ++alone) {
        if (!isInOrder(tasks, threads, alone)) return std::printf("%d tasks of %d threads: thread %d not in order\n", tasks, threads, alone), 1;
      }
      numTaken += 1 + threads;
    }
  }
  std::printf("%d\n", numTaken);
}
