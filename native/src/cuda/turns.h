// Who takes memory of GPUs, or gives it back, and who launches an op of several of them: never both at once.
//
// The driver may let a call that takes or frees memory wait for all that a GPU, and those connected with it, was given. An op of several GPUs does not end
// before it was launched on all of them: were it launched on one, and the thread that is to launch it on another waited in such a call, neither would ever end.
#pragma once

#include <condition_variable>
#include <mutex>

namespace svc::cuda {

/// Of this process. A thread that may launch never waits for one that waits for its turn with memory: others may have launched their part already.
class Turns {
 public:
  static Turns& ofProcess() {
    static Turns turns;
    return turns;
  }

  void beginLaunch() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !isWithMemory_; });
    ++launching_;
  }
  void endLaunch() {
    const std::lock_guard lock(mutex_);
    --launching_;
    changed_.notify_all();
  }
  void beginMemory() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return launching_ == 0 && !isWithMemory_; });
    isWithMemory_ = true;
  }
  void endMemory() {
    const std::lock_guard lock(mutex_);
    isWithMemory_ = false;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int launching_ = 0;
  bool isWithMemory_ = false;
};

/// While it lives, this thread alone takes or frees memory, and no op is launched on some GPUs and not yet on others.
class MemoryTurn {
 public:
  MemoryTurn() { Turns::ofProcess().beginMemory(); }
  ~MemoryTurn() { Turns::ofProcess().endMemory(); }
  MemoryTurn(const MemoryTurn&) = delete;
  MemoryTurn& operator=(const MemoryTurn&) = delete;
};

/// Each thread that launches an op of several GPUs takes one once all are about to, and keeps it until all have.
class LaunchTurn {
 public:
  LaunchTurn() { Turns::ofProcess().beginLaunch(); }
  ~LaunchTurn() { Turns::ofProcess().endLaunch(); }
  LaunchTurn(const LaunchTurn&) = delete;
  LaunchTurn& operator=(const LaunchTurn&) = delete;
};

}  // namespace svc::cuda
