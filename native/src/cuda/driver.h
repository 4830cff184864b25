// NVIDIA's driver library, opened when a GPU is asked for: nothing of svc is linked with it.
#pragma once

#include <stdexcept>
#include <string>

#include "backend/device_error.h"
#include "cuda/driver_api.h"

namespace svc::cuda {

/// This machine cannot compute on a GPU. The message says what is missing, and what to do.
class Unavailable : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// There is not even a driver.
class NoDriver : public Unavailable {
  using Unavailable::Unavailable;
};

/// A call of the driver failed.
class DriverError : public DeviceError {
 public:
  DriverError(Result result, const std::string& message) : DeviceError(message, result == kErrorOutOfMemory), result(result) {}

  const Result result;
};

class Driver {
 public:
  /// Opens `library`: libcuda.so.1, or another one with its functions. It stays open until the process ends. Throws Unavailable where it is
  /// not there, lacks a function, or does not start.
  explicit Driver(const std::string& library);

#define SVC_DECLARE(symbol, arguments) Result(*symbol) arguments = nullptr;
  SVC_CUDA_DRIVER_FUNCTIONS(SVC_DECLARE)
#undef SVC_DECLARE

  /// Of CUDA: 13020 is 13.2.
  int version() const { return version_; }

  /// Throws DriverError unless `result` is that of a success; `doing` says what was tried.
  void check(Result result, const char* doing) const {
    if (result != kSuccess) fail(result, doing);
  }
  /// `CUDA_ERROR_OUT_OF_MEMORY: out of memory`
  std::string describe(Result result) const;

 private:
  [[noreturn]] void fail(Result result, const char* doing) const;

  int version_ = 0;
};

}  // namespace svc::cuda
