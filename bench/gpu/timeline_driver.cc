// In the place of the driver: passes everything on to it, and writes when the process appended something to a stream, and when the device did it: a line of
// JSON for each, [what, called, returned, begun, done], in microseconds of the monotonic clock. Steps run as they do without it, as graphs.
//
//   make -C native build/stand-ins/timeline_driver.so
//   SVC_DRIVER_BEHIND=<the driver> SVC_TIMELINE=<file> SVC_CUDA_DRIVER=$PWD/native/build/stand-ins/timeline_driver.so svc ...

#include <chrono>
#include <mutex>
#include <vector>

#include "stand_in.h"

namespace {

double now() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Timeline {
 public:
  static Timeline& only() {
    static Timeline timeline;
    return timeline;
  }

  template <class Call>
  Result append(const std::string& what, StreamHandle stream, const Call& call) {
    const DriverBehind& driver = DriverBehind::only();
    const std::lock_guard lock(mutex_);
    if (origin_ == nullptr) {
      origin_ = driver.record(stream);
      driver.cuEventSynchronize(origin_);
      originAt_ = now();
    }
    const EventHandle begin = driver.record(stream);
    const double called = now();
    const Result result = call(driver);
    const double returned = now();
    appended_.push_back({what, called, returned, begin, driver.record(stream)});
    return result;
  }

  void write() {
    const DriverBehind& driver = DriverBehind::only();
    const std::lock_guard lock(mutex_);
    for (const auto& [what, called, returned, begin, end] : appended_) {
      const auto at = [&](EventHandle event) { return originAt_ + driver.microsecondsBetween(origin_, event); };
      std::fprintf(file_, "[\"%s\",%.3f,%.3f,%.3f,%.3f]\n", what.c_str(), called, returned, at(begin), at(end));
      driver.cuEventDestroy_v2(begin);
      driver.cuEventDestroy_v2(end);
    }
    std::fflush(file_);
    appended_.clear();
  }

 private:
  struct Appended {
    std::string what;
    double called, returned;
    EventHandle begin, end;
  };

  std::FILE* file_ = std::fopen(variable("SVC_TIMELINE"), "w");
  std::mutex mutex_;
  EventHandle origin_ = nullptr;
  double originAt_ = 0;
  std::vector<Appended> appended_;
};

}  // namespace

extern "C" {

Result cuLaunchKernel(Function function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY, unsigned blockZ,
                      unsigned sharedBytes, StreamHandle stream, void** arguments, void** extra) {
  return Timeline::only().append(DriverBehind::only().names[function], stream, [&](const DriverBehind& driver) {
    return driver.cuLaunchKernel(function, gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes, stream, arguments, extra);
  });
}

Result cuGraphLaunch(ExecutableGraph graph, StreamHandle stream) {
  return Timeline::only().append("graph", stream, [&](const DriverBehind& driver) { return driver.cuGraphLaunch(graph, stream); });
}

Result cuMemcpyHtoDAsync_v2(DeviceAddress to, const void* from, size_t bytes, StreamHandle stream) {
  return Timeline::only().append("to the GPU", stream, [&](const DriverBehind& driver) { return driver.cuMemcpyHtoDAsync_v2(to, from, bytes, stream); });
}

Result cuMemcpyDtoHAsync_v2(void* to, DeviceAddress from, size_t bytes, StreamHandle stream) {
  return Timeline::only().append("from the GPU", stream, [&](const DriverBehind& driver) { return driver.cuMemcpyDtoHAsync_v2(to, from, bytes, stream); });
}

Result cuStreamDestroy_v2(StreamHandle stream) {
  Timeline::only().write();
  return DriverBehind::only().cuStreamDestroy_v2(stream);
}

}  // extern "C"
