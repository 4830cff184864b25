// Carries hidden states from the stream of one stage to that of the next, in the order of their steps. What is sent is copied, so that
// the sender goes on with the next step.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace svc {

class StageLink {
 public:
  /// So many tensors may be on their way.
  explicit StageLink(size_t capacity) : capacity_(capacity) {}
  StageLink(const StageLink&) = delete;
  StageLink& operator=(const StageLink&) = delete;

  /// x f32 [rows, cols]. Throws std::runtime_error where it is closed or has no room.
  void send(Rows x, int64_t cols);
  /// The oldest tensor on its way, once there is one, into out f32 [rows, cols]. Throws std::runtime_error where the link was
  /// closed, the tensor has another shape, or none comes.
  void receive(Rows out, int64_t cols);
  /// Nothing more is received: `why` is what who waits is told. Later reasons are forgotten.
  void close(const std::string& why);

 private:
  struct Delivery {
    int64_t rows;
    std::vector<float> numbers;
  };

  std::vector<float> takeMemory(size_t count);

  /// A stage may compute for minutes; one that has ended closes its links.
  static constexpr std::chrono::minutes kDeadline{10};

  const size_t capacity_;
  std::mutex mutex_;
  std::condition_variable hasChanged_;
  std::deque<Delivery> onTheWay_;
  /// Memory of deliveries that were received.
  std::vector<std::vector<float>> spare_;
  std::string whyClosed_;
};

}  // namespace svc
