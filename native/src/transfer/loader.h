// A thread that verifies received layer blocks and copies them into KV blocks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "transfer/event.h"
#include "transfer/kv_memory.h"
#include "transfer/receiver.h"

namespace svc::transfer {

struct LoadJob {
  uint32_t load;
  /// Null if nothing was received under the ticket: the load fails.
  std::shared_ptr<Receive> receive;
  /// Index in the transfer of the first block to load.
  uint32_t firstBlock;
  /// The KV blocks to fill.
  std::vector<uint32_t> blocks;
};

class Loader {
 public:
  Loader(KvMemory memory, EventQueue& events);
  ~Loader();

  /// A Loaded event follows.
  void post(LoadJob job);

 private:
  void run();
  /// True if every layer block is as it was sent.
  bool copy(const LoadJob& job) const;

  const KvMemory memory_;
  EventQueue& events_;
  const BlockChecksum checksum_;
  std::mutex mutex_;
  std::condition_variable hasWork_;
  std::deque<LoadJob> jobs_;
  std::atomic<bool> isStopping_ = false;
  std::thread thread_;
};

}  // namespace svc::transfer
