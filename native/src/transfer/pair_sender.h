// The links over which devices of this instance send to those of others. Each part of the KV memory sends with a thread of its own, one
// frame after the other.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "memory/device_pair.h"
#include "transfer/event.h"
#include "transfer/pair_link.h"
#include "transfer/kv_parts.h"

namespace svc::transfer {

class PairSender {
 public:
  /// Of the device that has `memory`.
  using OpenPairs = std::function<std::shared_ptr<const DevicePairs>(const KvMemory& memory)>;
  /// `openPairs` is called on the threads of links.
  PairSender(const KvParts& memory, OpenPairs openPairs, EventQueue& events);
  ~PairSender();

  /// A LinkUp or LinkDown event follows. To be called on one thread, with all below.
  void connect(uint32_t link, const std::string& address, const Cut& cut);
  /// False where `link` is none of these. A LinkDown event follows.
  bool disconnect(uint32_t link);
  /// A portion may have become ready.
  void wake();
  /// Waits until nothing reads the blocks of sends that are erased from the table.
  void awaitReads() { const std::lock_guard lock(*reading_); }

  uint64_t bytesSent() const { return *bytesSent_; }

 private:
  class Link;
  struct Work;

  const KvParts& memory_;
  const OpenPairs openPairs_;
  EventQueue& events_;
  /// Held while blocks are read. Threads that are left alone may outlive this.
  const std::shared_ptr<std::mutex> reading_ = std::make_shared<std::mutex>();
  const std::shared_ptr<std::atomic<uint64_t>> bytesSent_ = std::make_shared<std::atomic<uint64_t>>(0);
  std::map<uint32_t, std::shared_ptr<Link>> links_;
};

}  // namespace svc::transfer
