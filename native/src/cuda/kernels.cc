#include "cuda/kernels.h"

namespace svc::cuda {
namespace {

/// What every kernel may use without asking for it.
constexpr uint32_t kPlainSharedBytes = 48 << 10;

}  // namespace

Kernels::Kernels(const Device& device, const std::string& path)
    : driver_(device.driver()), path_(path) {
  const Result loaded = driver_.cuModuleLoad(&module_, path_.c_str());
  if (loaded == kErrorFileNotFound) {
    throw Unavailable("the kernels are not built (no " + path_ +
                      "): install the CUDA toolkit 13.0 or newer, so that nvcc is found, and run `npm run build`");
  }
  if (loaded == kErrorNoBinaryForGpu) {
    throw Unavailable("the kernels of " + path_ + " are not built for " + device.name() + " with this driver");
  }
  driver_.check(loaded, ("load the kernels of " + path_).c_str());
}

Kernels::~Kernels() { driver_.cuModuleUnload(module_); }

void Kernels::enqueue(StreamHandle stream, const Launch& launch, void* params) {
  const auto [x, y, z] = launch.grid;
  if (x == 0 || y == 0 || z == 0) return;
  void* arguments[] = {params};
  const Function function = kernelFor(launch).function;
  driver_.check(
      driver_.cuLaunchKernel(function, x, y, z, launch.block, 1, 1, launch.sharedBytes, stream, arguments, nullptr),
      launch.kernel);
}

Kernels::Kernel& Kernels::kernelFor(const Launch& launch) {
  auto found = kernels_.find(launch.kernel);
  if (found == kernels_.end()) {
    Function function = nullptr;
    const Result result = driver_.cuModuleGetFunction(&function, module_, launch.kernel);
    if (result == kErrorNotFound) {
      throw Unavailable("the kernels of " + path_ + " are of another version (they lack " + launch.kernel +
                        "): run `npm run build`");
    }
    driver_.check(result, "find a kernel");
    found = kernels_.emplace(launch.kernel, Kernel{function, kPlainSharedBytes}).first;
  }
  Kernel& kernel = found->second;
  if (launch.sharedBytes > kernel.dynamicSharedBytes) {
    driver_.check(driver_.cuFuncSetAttribute(kernel.function, kFunctionMaxDynamicSharedBytes,
                                             static_cast<int>(launch.sharedBytes)),
                  "give a kernel more shared memory");
    kernel.dynamicSharedBytes = launch.sharedBytes;
  }
  return kernel;
}

}  // namespace svc::cuda
