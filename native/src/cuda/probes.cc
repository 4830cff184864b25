// Measures how fast this GPU can be at most, by events of its stream.

#include <algorithm>

#include "backend/not_available.h"
#include "cuda/cuda_backend.h"

namespace svc::cuda {
namespace {

/// A place in a stream whose time is told.
class Moment {
 public:
  Moment(const Driver& driver, StreamHandle stream) : driver_(driver) {
    driver_.check(driver_.cuEventCreate(&event_, 0), "make an event");
    const Result recorded = driver_.cuEventRecord(event_, stream);
    if (recorded == kSuccess) return;
    driver_.cuEventDestroy_v2(event_);
    driver_.check(recorded, "record an event");
  }
  ~Moment() { driver_.cuEventDestroy_v2(event_); }
  Moment(const Moment&) = delete;
  Moment& operator=(const Moment&) = delete;

  /// Once the stream has reached both.
  double secondsUntil(const Moment& later) const {
    float milliseconds = 0;
    driver_.check(driver_.cuEventElapsedTime(&milliseconds, event_, later.event_), "tell a time");
    return milliseconds / 1e3;
  }

 private:
  const Driver& driver_;
  EventHandle event_ = nullptr;
};

}  // namespace

double CudaBackend::secondsOf(const std::function<void()>& body) {
  const Moment begin(device_.driver(), stream_.handle());
  body();
  const Moment end(device_.driver(), stream_.handle());
  device_.driver().check(device_.driver().cuStreamSynchronize(stream_.handle()), "compute");
  return begin.secondsUntil(end);
}

double CudaBackend::readBandwidth(size_t bytes, int64_t repeats) {
  const DeviceMemory memory(device_, bytes), sums(device_, probeSumBytes(device_.multiprocessors()));
  const ReadMemoryParams params{memory.at<void>(), static_cast<int64_t>(bytes / 16), sums.at<uint32_t>()};
  double best = 0;
  for (int64_t i = 0; i <= repeats; ++i) {
    const double seconds = secondsOf([&] { run(probeLaunch("svcReadMemory", device_.multiprocessors()), params); });
    // The first pass loads the kernel.
    if (i > 0) best = std::max(best, static_cast<double>(bytes) / seconds);
  }
  return best;
}

double CudaBackend::matrixPeak(int64_t repeats, WeightFormat format) {
  if (format != WeightFormat::Half) throw NotAvailable("the speed of int8 products is not measured with --device cuda");
  constexpr double kEnough = 2e-3;  // seconds, of which a launch is nothing
  const DeviceMemory sums(device_, probeSumBytes(device_.multiprocessors()));
  const Launch launch = probeLaunch("svcMatrixPeak", device_.multiprocessors());
  const double warps = static_cast<double>(launch.grid[0]) * kProbeThreads / 32;
  MatrixPeakParams params{sums.at<float>(), 1};
  double best = 0;
  for (int64_t i = 0; i < repeats;) {
    const double seconds = secondsOf([&] { run(launch, params); });
    if (seconds < kEnough) params.loops *= 2;
    else best = std::max(best, warps * kProbeTiles * params.loops * 2 * 16 * 8 * 16 / seconds), ++i;
  }
  return best;
}

/// Mean time of a launch that does nothing, with many of them waiting.
double CudaBackend::forkJoinSeconds(int64_t repeats) {
  const DeviceMemory sums(device_, probeSumBytes(1));
  const MatrixPeakParams params{sums.at<float>(), 0};
  const double seconds = secondsOf([&] {
    for (int64_t i = 0; i < repeats; ++i) run(probeLaunch("svcMatrixPeak", 1), params);
  });
  return seconds / static_cast<double>(repeats);
}

}  // namespace svc::cuda
