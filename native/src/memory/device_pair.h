// Two processes, on any hosts, whose devices send to each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace svc {

/// Names a pair; one end makes it, and tells the other.
struct PairId {
  char bytes[128];
};

/// One end of a pair. One thread uses it. What it does ends within a deadline, or soon after `shouldStop` says so, with a std::runtime_error; the pair
/// is of no use then. Its end ends what the other one waits for.
class DevicePair {
 public:
  virtual ~DevicePair() = default;
  /// From memory of the device; returns when the other end has it.
  virtual void send(uint64_t from, size_t bytes) = 0;
  /// To memory of the device; returns when it is there.
  virtual void receive(uint64_t to, size_t bytes) = 0;
};

class DevicePairs {
 public:
  virtual ~DevicePairs() = default;
  virtual PairId newId() const = 0;
  /// As rank 0 or 1; returns when the other one has joined.
  virtual std::unique_ptr<DevicePair> join(const PairId& id, int rank, std::function<bool()> shouldStop) const = 0;
};

}  // namespace svc
