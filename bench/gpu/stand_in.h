// What libraries in the place of the driver share. They are linked with it, so that what they do not define is found there.
#pragma once

#include <dlfcn.h>

#include <map>
#include <string>

#include "cuda/driver_api.h"
#include "variable.h"

using namespace svc::cuda;

/// The driver behind a library that stands in for it, which SVC_DRIVER_BEHIND names.
class DriverBehind {
 public:
  static DriverBehind& only() {
    static DriverBehind driver;
    return driver;
  }

  void* library_ = dlopen(variable("SVC_DRIVER_BEHIND"), RTLD_NOW | RTLD_LOCAL);  // before the functions that are found in it
#define SVC_MEMBER(name, arguments) Result(*name) arguments = reinterpret_cast<Result(*) arguments>(dlsym(library_, #name));
  SVC_CUDA_DRIVER_FUNCTIONS(SVC_MEMBER)
#undef SVC_MEMBER

  /// Of kernels.
  std::map<Function, std::string> names;

  EventHandle record(StreamHandle stream) const {
    EventHandle event = nullptr;
    cuEventCreate(&event, 0);
    cuEventRecord(event, stream);
    return event;
  }
  double microsecondsBetween(EventHandle begin, EventHandle end) const {
    float milliseconds = 0;
    cuEventSynchronize(end);
    cuEventElapsedTime(&milliseconds, begin, end);
    return 1000.0 * milliseconds;
  }
};

extern "C" inline __attribute__((used)) Result cuModuleGetFunction(Function* function, Module module, const char* name) {
  DriverBehind& driver = DriverBehind::only();
  const Result result = driver.cuModuleGetFunction(function, module, name);
  if (result == kSuccess) driver.names[*function] = name;
  return result;
}
