// In the place of the driver: passes everything on to it, and writes how long each launch took: a line of JSON for each step of a model,
// [[kernel, grid, microseconds], ...].
//
//   make -C native build/stand-ins/timed_driver.so
//   SVC_DRIVER_BEHIND=<the driver> SVC_TIMED_LAUNCHES=<file> SVC_CUDA_DRIVER=$PWD/native/build/stand-ins/timed_driver.so svc ...

#include <unistd.h>

#include <vector>

#include "stand_in.h"

namespace {

/// The first kernel of a step.
constexpr const char* kFirst = "svcEmbedding";
/// A step is held up until all of it was launched: what is timed is what a launch takes, not what the processor takes to call it.
constexpr int kHoldMicroseconds = 20000;

struct Timed {
  std::string kernel;
  unsigned grid[3];
  EventHandle begin, end;
};

class Step {
 public:
  static Step& only() {
    static Step step;
    return step;
  }

  void add(Timed timed) { launches_.push_back(std::move(timed)); }

  void write() {
    if (launches_.empty()) return;
    const DriverBehind& driver = DriverBehind::only();
    const char* between = "[";
    for (const auto& [kernel, grid, begin, end] : launches_) {
      std::fprintf(file_, "%s[\"%s\",\"%u %u %u\",%g]", between, kernel.c_str(), grid[0], grid[1], grid[2], driver.microsecondsBetween(begin, end));
      between = ",";
      driver.cuEventDestroy_v2(begin);
      driver.cuEventDestroy_v2(end);
    }
    std::fputs("]\n", file_);
    std::fflush(file_);
    launches_.clear();
  }

 private:
  std::FILE* file_ = std::fopen(variable("SVC_TIMED_LAUNCHES"), "w");
  std::vector<Timed> launches_;
};

}  // namespace

extern "C" Result cuLaunchKernel(Function function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY,
                                 unsigned blockZ, unsigned sharedBytes, StreamHandle stream, void** arguments, void** extra) {
  DriverBehind& driver = DriverBehind::only();
  const std::string& name = driver.names[function];
  if (name == kFirst) {
    Step::only().write();
    driver.cuLaunchHostFunc(stream, [](void*) { usleep(kHoldMicroseconds); }, nullptr);
  }
  const EventHandle begin = driver.record(stream);
  const Result result =
      driver.cuLaunchKernel(function, gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes, stream, arguments, extra);
  Step::only().add({name, {gridX, gridY, gridZ}, begin, driver.record(stream)});
  return result;
}

extern "C" Result cuStreamDestroy_v2(StreamHandle stream) {
  Step::only().write();
  return DriverBehind::only().cuStreamDestroy_v2(stream);
}
