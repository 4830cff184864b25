#include "cuda/kernels.h"

#include "cuda/turns.h"

namespace svc::cuda {
namespace {

/// What every kernel may use without asking for it, but for what it may have of its own beside that.
constexpr uint32_t kPlainSharedBytes = (48 << 10) - 1024;

/// All that launch.h names: a file that lacks one is of another version, which a service learns at its start.
constexpr const char* kNames[] = {
    "svcEmbedding", "svcRmsNorm", "svcLayerNorm", "svcWarpRmsNorm", "svcWarpLayerNorm", "svcCombineRmsNorm", "svcWarpCombineRmsNorm", "svcRope", "svcStoreKv", "svcPrepareHeads64", "svcPrepareHeads128", "svcPrepareHeads256", "svcAttention64", "svcAttention128",
    "svcAttention256", "svcAttentionCombine", "svcScheduledAttention64", "svcScheduledAttention128", "svcScheduledAttention256",
    "svcAttentionMerge", "svcFewAttention64", "svcFewAttention128", "svcFewAttention256", "svcFewAttention512", "svcScheduledFewAttention64",
    "svcScheduledFewAttention128", "svcScheduledFewAttention256", "svcScheduledFewAttention512", "svcFp8FewAttention64", "svcFp8FewAttention128",
    "svcFp8FewAttention256", "svcFp8FewAttention512", "svcInt8FewAttention64", "svcInt8FewAttention128", "svcInt8FewAttention256", "svcInt8FewAttention512",
    "svcLatent64", "svcLatent576", "svcFp8Latent64", "svcFp8Latent576",
    "svcInt8Latent64", "svcInt8Latent576", "svcPackHeads", "svcLinear8", "svcLinear16", "svcLinear32", "svcLinear64", "svcLinear128",
    "svcLinearCombine", "svcGroupedLinear8", "svcGroupedLinear16", "svcGroupedLinear32", "svcGroupedLinear64",
    "svcGroupedLinear128", "svcCodedGroups8", "svcCodedGroups16", "svcCodedGroups32", "svcCodedGroups64", "svcCodedGroups128",
    "svcWholeGroups8", "svcWholeGroups16", "svcWholeGroups32", "svcWholeGroups64", "svcWholeGroups128", "svcCodedLinear8", "svcCodedLinear16", "svcCodedLinear32", "svcCodedLinear64", "svcCodedLinear128",
    "svcWholeLinear8", "svcWholeLinear16", "svcWholeLinear32", "svcWholeLinear64", "svcWholeLinear128", "svcWholeCombine",
    "svcLinearF32", "svcF32Groups", "svcF32LoraUp", "svcQuantizeRows", "svcTakeColumns", "svcTakeGroupColumns", "svcStoreInt8Kv", "svcFp8Attention64", "svcFp8Attention128",
    "svcFp8Attention256", "svcInt8Attention64", "svcInt8Attention128", "svcInt8Attention256", "svcF32Attention", "svcRoute",
    "svcExpertRows", "svcWeighInputs", "svcExpertsSum", "svcLoraUp", "svcReadMemory", "svcMatrixPeak", "svcGate", "svcGatherRows", "svcPlaceColumns", "svcSumRanks", "svcMeanRows", "svcActivate", "svcXielu", "svcCast", "svcAddScaled", "svcScale",
    "svcSoftcap", "svcClip", "svcScaleColumns", "svcSparsify", "svcJoinStreams", "svcAddMixed", "svcGateBy", "svcConvolve", "svcGatedDelta64", "svcGatedDelta128", "svcGatedDelta256", "svcSelectiveScan64", "svcSelectiveScan128", "svcSelectiveScan256",
    "svcCopyPieces", "svcRestrictLogits", "svcMaskLogits", "svcEditLogits", "svcLogprobs", "svcSample"};

/// Those that some files have beside them: of Hopper, and one that says of which halves they are.
constexpr const char* kFurtherNames[] = {"svcOfF16", "svcWide8", "svcWide16", "svcWide32", "svcWide64", "svcWide128", "svcWide256"};

bool isPtx(const std::string& path) { return path.ends_with(".ptx"); }

/// `a/b.fatbin` -> `a/b.ptx`
std::string ptxBeside(const std::string& path) { return path.substr(0, path.rfind('.')) + ".ptx"; }

bool isRefusal(Result result) {
  return result == kErrorInvalidImage || result == kErrorNoBinaryForGpu || result == kErrorInvalidPtx ||
         result == kErrorUnsupportedPtxVersion;
}

}  // namespace

Kernels::Kernels(const Device& device, const std::string& path)
    : driver_(device.driver()), path_(path) {
  load(device);
  try {
    findAll();
    ptxVersion_ = attributeOf(kFunctionPtxVersion);
    // Machine code that the compiler made is for the version of the PTX that it was made of.
    areCompiledByDriver_ = isPtx(path_) || ptxVersion_ != attributeOf(kFunctionBinaryVersion);
  } catch (...) {
    driver_.cuModuleUnload(module_);
    throw;
  }
}

void Kernels::load(const Device& device) {
  const MemoryTurn turn;
  const Result loaded = driver_.cuModuleLoad(&module_, path_.c_str());
  if (isRefusal(loaded) && !isPtx(path_)) {
    const std::string ptx = ptxBeside(path_);
    if (driver_.cuModuleLoad(&module_, ptx.c_str()) == kSuccess) {
      path_ = ptx;
      return;
    }
  }
  if (loaded == kErrorFileNotFound) {
    throw Unavailable("the kernels are not built (no " + path_ +
                      "): install the CUDA toolkit 13.0 or newer, so that nvcc is found, and run `npm run build`");
  }
  if (isRefusal(loaded)) {
    throw Unavailable("the kernels of " + path_ + " are not for " + device.name() + " with this driver (" +
                      driver_.describe(loaded) + "), and no PTX is beside them that it takes: install driver 580 or newer");
  }
  driver_.check(loaded, ("load the kernels of " + path_).c_str());
}

int Kernels::attributeOf(int attribute) const {
  int value = 0;
  driver_.check(driver_.cuFuncGetAttribute(&value, attribute, kernels_.begin()->second.function), "tell of a kernel");
  return value;
}

Kernels::~Kernels() {
  const MemoryTurn turn;
  driver_.cuModuleUnload(module_);
}

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
  for (const char* const name : kFurtherNames) {
    Function function = nullptr;
    if (driver_.cuModuleGetFunction(&function, module_, name) == kSuccess) kernels_.emplace(name, Kernel{function, kPlainSharedBytes});
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
