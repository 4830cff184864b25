// Shares the KV memory of one JavaScript thread with another one of this process. Each thread has its own copy of
// everything else in the addon. Tokens are numbers, so that they can be sent as messages.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <unordered_map>

#include "transfer/send_table.h"

namespace svc::transfer {

class MemoryTokens {
 public:
  static MemoryTokens& ofProcess() {
    static MemoryTokens tokens;
    return tokens;
  }

  uint64_t give(const std::shared_ptr<SendTable>& table) {
    const std::lock_guard lock(mutex_);
    const uint64_t token = (static_cast<uint64_t>(random_()) << 32) | random_();
    given_[token] = table;
    return token;
  }

  /// Null for an unknown token, one that was taken before, or one whose memory is freed.
  std::shared_ptr<SendTable> take(uint64_t token) {
    const std::lock_guard lock(mutex_);
    const auto found = given_.find(token);
    if (found == given_.end()) return nullptr;
    auto table = found->second.lock();
    given_.erase(found);
    return table;
  }

 private:
  std::mutex mutex_;
  std::random_device random_;
  std::unordered_map<uint64_t, std::weak_ptr<SendTable>> given_;
};

}  // namespace svc::transfer
