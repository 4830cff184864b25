// No stream waits for the one after it: a slot is used again only once the host has seen that it was copied. So stages can be closed from the first
// one on, whatever later ones wait for.

#include "cuda/device_link.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace svc::cuda {

DeviceLink::Slot::~Slot() {
  sender->tryToEnter();
  sent.synchronize();
}

DeviceLink::DeviceLink(std::shared_ptr<const Device> receiver, size_t capacity) : receiver_(std::move(receiver)) {
  while (taken_.size() < capacity) taken_.emplace_back(*receiver_);
}

char* DeviceLink::room(const std::shared_ptr<const Device>& sender, size_t bytes) {
  const size_t index = numSent_ % capacity();
  if (numSent_ - numReceived_ == capacity() || !taken_[index].isReached("compute")) {
    throw std::runtime_error("a pipeline stage is given more steps than it may have waiting");
  }
  if (index == slots_.size()) slots_.emplace_back(sender);
  DeviceMemory& memory = slots_[index].memory;
  largestBytes_ = std::max(largestBytes_, bytes);
  if (memory.bytes() < largestBytes_) {
    memory = DeviceMemory();
    memory = DeviceMemory(*sender, largestBytes_);
  }
  return memory.at<char>();
}

void DeviceLink::send(int64_t rows, int64_t cols, StreamHandle stream) {
  Slot& slot = slots_[numSent_ % capacity()];
  slot.rows = rows;
  slot.cols = cols;
  slot.sent.record(stream);
  ++numSent_;
}

void DeviceLink::receive(DeviceAddress to, int64_t rows, int64_t cols, StreamHandle stream) {
  if (numReceived_ == numSent_) throw std::runtime_error("a pipeline stage is to receive what was not sent");
  const size_t index = numReceived_ % capacity();
  const Slot& slot = slots_[index];
  if (slot.rows != rows || slot.cols != cols) throw std::runtime_error("a pipeline stage got hidden states of another step");
  if (numReceived_ == 0) receiver_->reach(*slot.sender);
  const Driver& driver = receiver_->driver();
  slot.sent.letWait(stream);
  driver.check(driver.cuMemcpyPeerAsync(to, receiver_->context(), slot.memory.address(), slot.sender->context(),
                                        static_cast<size_t>(rows * cols) * sizeof(float), stream),
               "copy hidden states from another one");
  taken_[index].record(stream);
  ++numReceived_;
}

}  // namespace svc::cuda
