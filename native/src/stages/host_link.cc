#include "stages/host_link.h"

#include <cstring>
#include <stdexcept>
#include <utility>

namespace svc {

void HostLink::send(Rows x, int64_t cols) {
  std::vector<float> numbers = takeMemory(static_cast<size_t>(x.rows * cols));
  const auto* from = reinterpret_cast<const float*>(x.data);
  for (int64_t row = 0; row < x.rows; ++row) {
    std::memcpy(&numbers[static_cast<size_t>(row * cols)], from + row * x.stride, static_cast<size_t>(cols) * sizeof(float));
  }
  const std::lock_guard lock(mutex_);
  if (!whyClosed_.empty()) throw std::runtime_error(whyClosed_);
  if (onTheWay_.size() == capacity_) throw std::runtime_error("a pipeline stage is given more steps than it may have waiting");
  onTheWay_.push_back({x.rows, std::move(numbers)});
  hasChanged_.notify_all();
}

void HostLink::receive(Rows out, int64_t cols) {
  Delivery delivery;
  {
    std::unique_lock lock(mutex_);
    const bool hasCome = hasChanged_.wait_for(lock, kDeadline, [&] { return !onTheWay_.empty() || !whyClosed_.empty(); });
    if (!hasCome) throw std::runtime_error("a pipeline stage waited a day for the one before it");
    if (onTheWay_.empty()) throw std::runtime_error(whyClosed_);
    delivery = std::move(onTheWay_.front());
    onTheWay_.pop_front();
  }
  if (delivery.rows != out.rows || delivery.numbers.size() != static_cast<size_t>(out.rows * cols)) {
    throw std::runtime_error("a pipeline stage got hidden states of another step");
  }
  auto* to = reinterpret_cast<float*>(out.data);
  for (int64_t row = 0; row < out.rows; ++row) {
    std::memcpy(to + row * out.stride, &delivery.numbers[static_cast<size_t>(row * cols)],
                static_cast<size_t>(cols) * sizeof(float));
  }
  const std::lock_guard lock(mutex_);
  spare_.push_back(std::move(delivery.numbers));
}

void HostLink::close(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!whyClosed_.empty()) return;
  whyClosed_ = why;
  hasChanged_.notify_all();
}

std::vector<float> HostLink::takeMemory(size_t count) {
  std::vector<float> memory;
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      memory = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  memory.resize(count);
  return memory;
}

}  // namespace svc
