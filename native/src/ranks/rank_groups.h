// The rank groups of this process, by tokens that can be sent between its JavaScript threads.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "ranks/rank_group.h"

namespace svc {

class RankGroups {
 public:
  static RankGroups& ofProcess() {
    static RankGroups groups;
    return groups;
  }

  uint64_t create(int size, RankGroup::Duration deadline) {
    const std::lock_guard lock(mutex_);
    groups_[++last_] = std::make_shared<RankGroup>(size, deadline);
    return last_;
  }

  /// Null where there is none, or none any more.
  std::shared_ptr<RankGroup> find(uint64_t token) {
    const std::lock_guard lock(mutex_);
    const auto found = groups_.find(token);
    return found == groups_.end() ? nullptr : found->second;
  }

  /// Nobody can join it any more.
  std::shared_ptr<RankGroup> remove(uint64_t token) {
    const std::lock_guard lock(mutex_);
    const auto node = groups_.extract(token);
    return node.empty() ? nullptr : node.mapped();
  }

 private:
  std::mutex mutex_;
  uint64_t last_ = 0;
  std::unordered_map<uint64_t, std::shared_ptr<RankGroup>> groups_;
};

}  // namespace svc
