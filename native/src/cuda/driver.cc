// A driver is never closed: it keeps threads of its own.

#include "cuda/driver.h"

#include <dlfcn.h>

namespace svc::cuda {
namespace {

/// CUDA 12.3, of driver 545: the oldest with all functions.
constexpr int kOldestVersion = 12030;

std::string dottedVersion(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

void* openLibrary(const std::string& name) {
  if (void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL); library != nullptr) return library;
  const char* const reason = dlerror();
  throw NoDriver("the NVIDIA driver is not there (" + (reason == nullptr ? name : std::string(reason)) +
                    "): install driver 580 or newer; in a container, start it with the GPU (docker run --gpus all)");
}

void* symbolOf(void* library, const char* symbol) {
  void* const address = dlsym(library, symbol);
  if (address != nullptr) return address;
  throw Unavailable("the NVIDIA driver is too old (it has no " + std::string(symbol) + "): install driver 580 or newer");
}

}  // namespace

Driver::Driver(const std::string& name) {
  void* const library = openLibrary(name);
#define SVC_FIND(symbol, arguments) symbol = reinterpret_cast<decltype(symbol)>(symbolOf(library, #symbol));
  SVC_CUDA_DRIVER_FUNCTIONS(SVC_FIND)
#undef SVC_FIND
  if (const Result started = cuInit(0); started != kSuccess) {
    if (started == kErrorNoDevice) throw Unavailable("there is an NVIDIA driver but no GPU (" + describe(started) + ")");
    throw Unavailable("the NVIDIA driver does not start (" + describe(started) +
                      "): nvidia-smi shows whether driver and kernel module fit together");
  }
  check(cuDriverGetVersion(&version_), "ask for the version of the driver");
  if (version_ < kOldestVersion) {
    throw Unavailable("the NVIDIA driver is too old (for CUDA " + dottedVersion(version_) +
                      "): install driver 580 or newer; from 545 on, for CUDA " + dottedVersion(kOldestVersion) +
                      ", it can be used");
  }
}

std::string Driver::describe(Result result) const {
  const char *name = nullptr, *text = nullptr;
  if (cuGetErrorName(result, &name) != kSuccess || cuGetErrorString(result, &text) != kSuccess) {
    return "error " + std::to_string(result);
  }
  return std::string(name) + ": " + text;
}

void Driver::fail(Result result, const char* doing) const {
  throw DriverError(result, "the GPU could not " + std::string(doing) + " (" + describe(result) + ")");
}

}  // namespace svc::cuda
