#include "binding/cuda.h"

#include "binding/checked.h"
#include "binding/ranks.h"
#include "cuda/cuda_backend.h"
#include "cuda/nvrtc.h"

namespace svc {

std::unique_ptr<Backend> makeCudaBackend(const Napi::CallbackInfo& info) {
  const int ordinal = info[2].ToNumber().Int32Value();
  const cuda::CudaOptions options{ordinal, info[3].ToBoolean(), info[4].ToBoolean(), info[5].ToBoolean()};
  cuda::RankSeat seat;
  if (info[6].IsObject()) {
    const auto ranks = info[6].As<Napi::Object>();
    seat = {rankMemberFrom(ranks.Get("group"), ranks.Get("rank")), ranks.Get("nccl").ToString()};
  }
  return std::make_unique<cuda::CudaBackend>(info[0].ToString(), info[1].ToString(), options, std::move(seat));
}

Napi::Value cudaDevice(const Napi::CallbackInfo& info) {
  Napi::Object told = Napi::Object::New(info.Env());
  return checked(info, [&]() -> Napi::Value {
    try {
      const cuda::Device device(info[0].ToString(), info[1].ToNumber().Int32Value());
      const cuda::MemoryInfo memory = device.memory();
      told.Set("count", device.count());
      told.Set("name", device.name());
      told.Set("computeCapability", device.computeCapability());
      told.Set("driverVersion", device.driver().version());
      told.Set("freeBytes", static_cast<double>(memory.free));
      told.Set("totalBytes", static_cast<double>(memory.total));
    } catch (const cuda::Unavailable& missing) {
      told.Set("missing", missing.what());
      told.Set("hasDriver", dynamic_cast<const cuda::NoDriver*>(&missing) == nullptr);
    }
    return told;
  });
}

Napi::Value nvrtc(const Napi::CallbackInfo& info) {
  Napi::Object told = Napi::Object::New(info.Env());
  return checked(info, [&]() -> Napi::Value {
    try {
      told.Set("version", cuda::Nvrtc(info[0].ToString()).version());
    } catch (const cuda::Unavailable& missing) {
      told.Set("missing", missing.what());
    }
    return told;
  });
}

Napi::Value compileCuda(const Napi::CallbackInfo& info) {
  return checked(info, [&]() -> Napi::Value {
    std::vector<cuda::Header> headers;
    const auto given = info[2].As<Napi::Array>();
    for (uint32_t i = 0; i < given.Length(); ++i) {
      const auto header = given.Get(i).As<Napi::Array>();
      headers.push_back({header.Get(uint32_t{0}).ToString(), header.Get(uint32_t{1}).ToString()});
    }
    std::vector<std::string> options;
    const auto words = info[3].As<Napi::Array>();
    for (uint32_t i = 0; i < words.Length(); ++i) options.push_back(words.Get(i).ToString());
    const std::vector<char> code = cuda::Nvrtc(info[0].ToString()).compile(info[1].ToString(), headers, options);
    return Napi::Buffer<char>::Copy(info.Env(), code.data(), code.size());
  });
}

}  // namespace svc
