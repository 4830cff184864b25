#include "binding/cuda.h"

#include "binding/checked.h"
#include "cuda/cuda_backend.h"

namespace svc {

std::unique_ptr<Backend> makeCudaBackend(const Napi::CallbackInfo& info) {
  return std::make_unique<cuda::CudaBackend>(info[0].ToString(), info[1].ToString(), info[2].ToBoolean());
}

Napi::Value cudaDevice(const Napi::CallbackInfo& info) {
  Napi::Object told = Napi::Object::New(info.Env());
  return checked(info, [&]() -> Napi::Value {
    try {
      const cuda::Device device(info[0].ToString());
      const cuda::MemoryInfo memory = device.memory();
      told.Set("name", device.name());
      told.Set("computeCapability", device.computeCapability());
      told.Set("freeBytes", static_cast<double>(memory.free));
      told.Set("totalBytes", static_cast<double>(memory.total));
    } catch (const cuda::Unavailable& missing) {
      told.Set("missing", missing.what());
    }
    return told;
  });
}

}  // namespace svc
