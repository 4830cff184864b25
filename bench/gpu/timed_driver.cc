// A library in the place of the driver, which passes everything on to it, and writes how long each launch took: a line of JSON for each step of a
// model, [[kernel, grid, microseconds], ...]. It is linked with the driver, so that what it does not define is found there.
//
//   g++ -std=c++20 -O2 -Inative/src -shared -fPIC -o timed.so bench/gpu/timed_driver.cc -Wl,--no-as-needed <the driver>
//   SVC_TIMED_DRIVER=<the driver> SVC_TIMED_LAUNCHES=<file> SVC_CUDA_DRIVER=$PWD/timed.so svc ...

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "cuda/driver_api.h"

using namespace svc::cuda;

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

class TimedDriver {
 public:
  static TimedDriver& only() {
    static TimedDriver driver;
    return driver;
  }

  void* library_ = dlopen(variable("SVC_TIMED_DRIVER"), RTLD_NOW | RTLD_LOCAL);  // before the functions that are found in it
#define SVC_MEMBER(name, arguments) Result(*name) arguments = of<Result(*) arguments>(#name);
  SVC_CUDA_DRIVER_FUNCTIONS(SVC_MEMBER)
#undef SVC_MEMBER

  std::map<Function, std::string> names;

  EventHandle record(StreamHandle stream) const {
    EventHandle event = nullptr;
    cuEventCreate(&event, 0);
    cuEventRecord(event, stream);
    return event;
  }
  void add(Timed timed) { step_.push_back(std::move(timed)); }
  void hold(StreamHandle stream) const {
    cuLaunchHostFunc(stream, [](void*) { usleep(kHoldMicroseconds); }, nullptr);
  }

  /// Of the step before.
  void write() {
    if (step_.empty()) return;
    const char* between = "[";
    for (const auto& [kernel, grid, begin, end] : step_) {
      float milliseconds = 0;
      cuEventSynchronize(end);
      cuEventElapsedTime(&milliseconds, begin, end);
      std::fprintf(file_, "%s[\"%s\",\"%u %u %u\",%g]", between, kernel.c_str(), grid[0], grid[1], grid[2], 1000 * milliseconds);
      between = ",";
      cuEventDestroy_v2(begin);
      cuEventDestroy_v2(end);
    }
    std::fputs("]\n", file_);
    std::fflush(file_);
    step_.clear();
  }

 private:
  template <class Pointer>
  Pointer of(const char* name) const {
    return reinterpret_cast<Pointer>(dlsym(library_, name));
  }
  static const char* variable(const char* name) {
    const char* value = std::getenv(name);
    if (value != nullptr) return value;
    std::fprintf(stderr, "timed driver: %s is not set\n", name);
    std::abort();
  }

  std::FILE* file_ = std::fopen(variable("SVC_TIMED_LAUNCHES"), "w");
  std::vector<Timed> step_;
};

}  // namespace

extern "C" Result cuModuleGetFunction(Function* function, Module module, const char* name) {
  TimedDriver& driver = TimedDriver::only();
  const Result result = driver.cuModuleGetFunction(function, module, name);
  if (result == kSuccess) driver.names[*function] = name;
  return result;
}

extern "C" Result cuLaunchKernel(Function function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY,
                                 unsigned blockZ, unsigned sharedBytes, StreamHandle stream, void** arguments, void** extra) {
  TimedDriver& driver = TimedDriver::only();
  const std::string& name = driver.names[function];
  if (name == kFirst) {
    driver.write();
    driver.hold(stream);
  }
  const EventHandle begin = driver.record(stream);
  const Result result =
      driver.cuLaunchKernel(function, gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes, stream, arguments, extra);
  driver.add({name, {gridX, gridY, gridZ}, begin, driver.record(stream)});
  return result;
}

extern "C" Result cuStreamDestroy_v2(StreamHandle stream) {
  TimedDriver::only().write();
  return TimedDriver::only().cuStreamDestroy_v2(stream);
}
