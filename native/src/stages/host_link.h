// Hidden states on their way between stages that compute on processors. Both streams are threads that wait.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "stages/stage_link.h"

namespace svc {

class HostLink final : public StageLink {
 public:
  /// So many tensors may be on their way.
  explicit HostLink(size_t capacity) : capacity_(capacity) {}

  /// x f32 [rows, cols]. Throws std::runtime_error where it is closed or has no room.
  void send(Rows x, int64_t cols);
  /// The oldest tensor on its way, once there is one, into out f32 [rows, cols]. Throws std::runtime_error where the link was
  /// closed, the tensor has another shape, or none comes.
  void receive(Rows out, int64_t cols);
  void close(const std::string& why) override;

 private:
  struct Delivery {
    int64_t rows;
    std::vector<float> numbers;
  };

  std::vector<float> takeMemory(size_t count);

  /// An engine whose step takes too long is ended by who watches it, and a stage that has ended closes its links.
  static constexpr std::chrono::hours kDeadline{24};

  const size_t capacity_;
  std::mutex mutex_;
  std::condition_variable hasChanged_;
  std::deque<Delivery> onTheWay_;
  /// Memory of deliveries that were received.
  std::vector<std::vector<float>> spare_;
  std::string whyClosed_;
};

}  // namespace svc
