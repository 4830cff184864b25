// Launches with their arguments, in their order: plain bytes, so that two lists are equal where they do the same.
#pragma once

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "cuda/driver_api.h"
#include "cuda/launch.h"

namespace svc::cuda {

struct QueuedLaunch {
  Function function;
  const char* kernel;
  uint32_t grid[3];
  uint32_t block, sharedBytes;
  /// Where its arguments begin.
  uint32_t params;
};
static_assert(sizeof(QueuedLaunch) == 40, "lists are compared as bytes: there may be no padding");

class LaunchList {
 public:
  /// Nothing is launched for a grid without blocks.
  template <class Params>
  void add(Function function, const Launch& launch, const Params& given) {
    const auto [x, y, z] = launch.grid;
    if (x == 0 || y == 0 || z == 0) return;
    Params params = given;
    __builtin_clear_padding(&params);
    const size_t begin = (params_.size() + alignof(Params) - 1) / alignof(Params) * alignof(Params);
    params_.resize(begin + sizeof(Params));
    std::memcpy(params_.data() + begin, &params, sizeof(Params));
    launches_.push_back({function, launch.kernel, {x, y, z}, launch.block, launch.sharedBytes, static_cast<uint32_t>(begin)});
  }
  /// The arguments of the last launch if it is of this kernel, else null: until the list is changed.
  template <class Params>
  const Params* last(std::string_view kernel) const {
    if (launches_.empty() || launches_.back().kernel != kernel) return nullptr;
    return reinterpret_cast<const Params*>(params_.data() + launches_.back().params);
  }
  void removeLast() {
    params_.resize(launches_.back().params);
    launches_.pop_back();
  }
  void clear() {
    launches_.clear();
    params_.clear();
  }

  const std::vector<QueuedLaunch>& launches() const { return launches_; }
  size_t size() const { return launches_.size(); }
  /// For the driver, which copies them.
  void* paramsOf(const QueuedLaunch& launch) const { return const_cast<char*>(params_.data()) + launch.params; }

  uint64_t hash() const { return hashOf(params_.data(), params_.size(), hashOf(launches_.data(), launches_.size() * sizeof(QueuedLaunch), 0)); }
  bool operator==(const LaunchList& other) const {
    return size() == other.size() && params_ == other.params_ &&
           std::memcmp(launches_.data(), other.launches_.data(), size() * sizeof(QueuedLaunch)) == 0;
  }

 private:
  static uint64_t hashOf(const void* data, size_t bytes, uint64_t hash) {
    const auto from = static_cast<const char*>(data);
    for (size_t at = 0; at < bytes; at += sizeof(uint32_t)) {
      uint32_t word = 0;
      std::memcpy(&word, from + at, std::min(sizeof word, bytes - at));
      hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
      hash ^= hash >> 32;
    }
    return hash;
  }

  std::vector<QueuedLaunch> launches_;
  std::vector<char> params_;
};

}  // namespace svc::cuda
