// Who takes memory of GPUs, or gives it back, and who lets a GPU wait for another one: never both at once.
//
// A call that takes or frees memory may wait for all work of a GPU and of those connected with it, and keep other threads out of the driver
// meanwhile. A kernel of NCCL ends only once its counterpart runs on another GPU. If the thread that is to launch the counterpart is in such a
// call, or kept out by one, neither ever ends. So allocation, and launches that need several GPUs, exclude each other. The same holds for what
// waits for a process that has died: the abort that would end it comes from such a thread.
#pragma once

#include <condition_variable>
#include <mutex>

namespace svc::cuda {

/// Of this process.
class Turns {
 public:
  static Turns& ofProcess() {
    static Turns turns;
    return turns;
  }

  /// Goes before those that wait for their turn with memory: other threads may have launched their part of the same op already.
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

/// While it lives, this thread alone takes or frees memory, and no GPU waits for what is still to be launched on another one.
class MemoryTurn {
 public:
  MemoryTurn() { Turns::ofProcess().beginMemory(); }
  ~MemoryTurn() { Turns::ofProcess().endMemory(); }
  MemoryTurn(const MemoryTurn&) = delete;
  MemoryTurn& operator=(const MemoryTurn&) = delete;
};

/// Each thread that launches an op of several GPUs of this process takes one once all are about to, and keeps it until all have; one that launches a transfer to or
/// from another process, until it can give up waiting for it.
class LaunchTurn {
 public:
  LaunchTurn() { Turns::ofProcess().beginLaunch(); }
  ~LaunchTurn() { Turns::ofProcess().endLaunch(); }
  LaunchTurn(const LaunchTurn&) = delete;
  LaunchTurn& operator=(const LaunchTurn&) = delete;
};

}  // namespace svc::cuda
