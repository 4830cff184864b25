// The compiled kernels, one file for all GPUs that svc knows, and their launches.
#pragma once

#include <string>
#include <unordered_map>

#include "backend/dtype.h"
#include "cuda/device.h"
#include "cuda/launch.h"

namespace svc::cuda {

class Kernels {
 public:
  /// Loads the file `path`, or where the driver refuses its machine code the PTX beside it, which has the same name and ends with `.ptx`.
  /// Throws Unavailable where it is not there, or has nothing for this GPU.
  Kernels(const Device& device, const std::string& path);
  ~Kernels();
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  /// The format of halves that they are compiled for.
  DType half() const { return kernels_.contains("svcOfF16") ? DType::F16 : DType::Bf16; }

  /// Whether the driver made the machine code: then its bits are the driver's.
  bool areCompiledByDriver() const { return areCompiledByDriver_; }

  /// Whether each waits itself for the kernel before it: from Hopper on, where they were compiled for it.
  bool overlap() const { return ptxVersion_ >= 90; }

  /// Whether those of linear_wide.cu are there: on Hopper alone.
  bool areWide() const { return kernels_.contains("svcWide8"); }

  /// The kernel that `launch` names, with as much shared memory as it asks for. Throws DriverError.
  Function functionOf(const Launch& launch);

 private:
  struct Kernel {
    Function function;
    /// That it may be launched with.
    uint32_t dynamicSharedBytes;
  };

  void load(const Device& device);
  void findAll();
  int attributeOf(int attribute) const;

  const Driver& driver_;
  std::string path_;
  Module module_ = nullptr;
  bool areCompiledByDriver_ = false;
  int ptxVersion_ = 0;
  std::unordered_map<std::string, Kernel> kernels_;
};

}  // namespace svc::cuda
