#include "cuda/upload.h"

#include <thread>

namespace svc::cuda {
namespace {

constexpr size_t kHalfBytes = size_t{4} << 20;
/// More do not read faster.
constexpr int kMostThreads = 8;

}  // namespace

int Upload::readers() { return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMostThreads); }

void Upload::reserve(size_t bytes, StreamHandle stream) {
  if (memory_.has_value() && bytes <= halfBytes_) return;
  const Driver& driver = device_.driver();
  driver.check(driver.cuStreamSynchronize(stream), "copy a weight to its memory");
  halfBytes_ = std::max(kHalfBytes, bytes);
  memory_.emplace(device_, 2 * halfBytes_);
}

void Upload::copy(DeviceAddress to, const char* half, size_t bytes, StreamHandle stream) {
  const Driver& driver = device_.driver();
  driver.check(driver.cuStreamSynchronize(stream), "copy a weight to its memory");
  driver.check(driver.cuMemcpyHtoDAsync_v2(to, half, bytes, stream), "copy a weight to its memory");
  isSecond_ = !isSecond_;
}

void Upload::rethrow(const FirstFailure& failure, StreamHandle stream) {
  try {
    failure.rethrow();
  } catch (...) {
    device_.driver().cuStreamSynchronize(stream);
    throw;
  }
}

}  // namespace svc::cuda
