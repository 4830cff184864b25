#include "cuda/kernels.h"

namespace svc::cuda {
namespace {

/// What every kernel may use without asking for it.
constexpr uint32_t kPlainSharedBytes = 48 << 10;

/// All that launch.h names: a file that lacks one is of another version, which a service learns at its start.
constexpr const char* kNames[] = {
    "svcEmbedding", "svcRmsNorm", "svcLayerNorm", "svcRope", "svcStoreKv", "svcAttention64", "svcAttention128",
    "svcAttention256", "svcAttentionCombine", "svcLatent64", "svcLatent576", "svcPackHeads", "svcLinear8", "svcLinear16", "svcLinear32", "svcLinear64", "svcLinear128",
    "svcLinearCombine", "svcGroupedLinear8", "svcGroupedLinear16", "svcGroupedLinear32", "svcGroupedLinear64",
    "svcGroupedLinear128", "svcRoute", "svcExpertRows", "svcExpertsSum", "svcLoraUp", "svcGate", "svcGatherRows", "svcMeanRows", "svcActivate", "svcCast", "svcAddScaled", "svcScale", "svcSoftcap",
    "svcRestrictLogits", "svcMaskLogits", "svcEditLogits", "svcLogprobs", "svcSample"};

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
  try {
    findAll();
  } catch (...) {
    driver_.cuModuleUnload(module_);
    throw;
  }
}

Kernels::~Kernels() { driver_.cuModuleUnload(module_); }

void Kernels::findAll() {
  std::string missing;
  for (const char* const name : kNames) {
    Function function = nullptr;
    const Result result = driver_.cuModuleGetFunction(&function, module_, name);
    if (result == kErrorNotFound) {
      missing += (missing.empty() ? "" : ", ") + std::string(name);
      continue;
    }
    driver_.check(result, "find a kernel");
    kernels_.emplace(name, Kernel{function, kPlainSharedBytes});
  }
  if (missing.empty()) return;
  throw Unavailable("the kernels of " + path_ + " are of another version (they lack " + missing + "): run `npm run build`");
}

Function Kernels::functionOf(const Launch& launch) {
  Kernel& kernel = kernels_.at(launch.kernel);
  if (launch.sharedBytes > kernel.dynamicSharedBytes) {
    driver_.check(driver_.cuFuncSetAttribute(kernel.function, kFunctionMaxDynamicSharedBytes,
                                             static_cast<int>(launch.sharedBytes)),
                  "give a kernel more shared memory");
    kernel.dynamicSharedBytes = launch.sharedBytes;
  }
  return kernel.function;
}

}  // namespace svc::cuda
