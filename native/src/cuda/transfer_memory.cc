// Each lane has a stream of its own, so that copies never wait for what is computed, nor the other way round.

#include "cuda/transfer_memory.h"

#include <chrono>
#include <thread>

namespace svc::cuda {
namespace {

/// A GPU that copies a few MB for longer does not work any more.
constexpr std::chrono::seconds kDeadline{10};
/// Copies of a frame take less than a sleep.
constexpr std::chrono::microseconds kSpin{200};
constexpr std::chrono::microseconds kPause{50};

class Lane final : public CopyLane {
 public:
  Lane(std::shared_ptr<const TransferMemory> memory, size_t pinnedBytes)
      : memory_(std::move(memory)), driver_((memory_->device().enter(), memory_->device().driver())),
        pinned_(memory_->device(), pinnedBytes) {
    driver_.check(driver_.cuStreamCreate(&stream_, kStreamNonBlocking), "make a stream for transfers");
    const Result made = driver_.cuEventCreate(&event_, kEventDisableTiming);
    if (made != kSuccess) driver_.cuStreamDestroy_v2(stream_);
    driver_.check(made, "make an event for transfers");
  }
  ~Lane() override {
    driver_.cuStreamSynchronize(stream_);
    driver_.cuEventDestroy_v2(event_);
    driver_.cuStreamDestroy_v2(stream_);
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  char* pinned() const override { return pinned_.data(); }
  void fetch(char* to, size_t offset, size_t bytes) override {
    memory_->device().enter();
    driver_.check(driver_.cuMemcpyDtoHAsync_v2(to, memory_->address() + offset, bytes, stream_), "copy from its KV memory");
  }
  void store(size_t offset, const char* from, size_t bytes) override {
    memory_->device().enter();
    driver_.check(driver_.cuMemcpyHtoDAsync_v2(memory_->address() + offset, from, bytes, stream_), "copy to its KV memory");
  }
  void finish() override;

 private:
  const std::shared_ptr<const TransferMemory> memory_;
  const Driver& driver_;
  const PinnedMemory pinned_;
  StreamHandle stream_ = nullptr;
  EventHandle event_ = nullptr;
};

void Lane::finish() {
  using Clock = std::chrono::steady_clock;
  memory_->device().enter();
  driver_.check(driver_.cuEventRecord(event_, stream_), "record an event");
  for (const Clock::time_point start = Clock::now();;) {
    const Result reached = driver_.cuEventQuery(event_);
    if (reached == kSuccess) return;
    if (reached != kErrorNotReady) driver_.check(reached, "copy blocks");
    const auto waited = Clock::now() - start;
    if (waited > kDeadline) throw std::runtime_error("the GPU does not copy blocks any more");
    if (waited > kSpin) std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

TransferMemory::TransferMemory(const std::string& driver, size_t bytes) : device_(driver), memory_(device_, bytes) {
  const Driver& calls = device_.driver();
  StreamHandle stream = nullptr;
  calls.check(calls.cuStreamCreate(&stream, kStreamNonBlocking), "make a stream");
  const Result begun = calls.cuMemsetD8Async(memory_.address(), 0, bytes, stream);
  const Result done = calls.cuStreamSynchronize(stream);
  calls.cuStreamDestroy_v2(stream);
  calls.check(begun != kSuccess ? begun : done, "clear its KV memory");
}

std::unique_ptr<CopyLane> TransferMemory::openLane(size_t pinnedBytes) const {
  return std::make_unique<Lane>(shared_from_this(), pinnedBytes);
}

}  // namespace svc::cuda
