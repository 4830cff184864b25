// The addon's exports: a class for each backend, KV transfer, and the features of this machine. src/native/native.ts types
// them.

#include "binding/backend_object.h"
#include "binding/checked.h"
#include "binding/cuda.h"
#include "binding/kv_memory.h"
#include "binding/ranks.h"
#include "binding/transfer.h"
#include "binding/transfer_probes.h"
#include "cpu/dispatch.h"
#include "threads/topology.h"
#include "memory/crc32c.h"

namespace {

Napi::Value instructionSets(const Napi::CallbackInfo& info) {
  const std::vector<std::string> names = svc::cpu::availableSets();
  Napi::Array list = Napi::Array::New(info.Env(), names.size());
  for (uint32_t i = 0; i < names.size(); ++i) list.Set(i, names[i]);
  return list;
}

Napi::Value physicalCores(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), svc::physicalCores());
}

Napi::Value crc32c(const Napi::CallbackInfo& info) {
  const auto bytes = svc::arrayOf<uint8_t>(info[0], "crc32c: bytes");
  return Napi::Number::New(info.Env(), svc::crc32c(bytes.Data(), bytes.ByteLength()));
}

Napi::Object registerAddon(Napi::Env env, Napi::Object exports) {
  exports.Set("CpuBackend", svc::BackendObject::define(env, "CpuBackend", svc::makeCpuBackend));
  exports.Set("CudaBackend", svc::BackendObject::define(env, "CudaBackend", svc::makeCudaBackend));
  exports.Set("cudaDevice", Napi::Function::New(env, svc::cudaDevice));
  exports.Set("nvrtc", Napi::Function::New(env, svc::nvrtc));
  exports.Set("compileCuda", Napi::Function::New(env, svc::compileCuda));
  exports.Set("KvMemory", svc::KvMemoryObject::define(env));
  exports.Set("TransferEngine", svc::TransferEngine::define(env));
  exports.Set("createRankGroup", Napi::Function::New(env, svc::createRankGroup));
  exports.Set("breakRankGroup", Napi::Function::New(env, svc::breakRankGroup));
  exports.Set("crc32c", Napi::Function::New(env, crc32c));
  exports.Set("copyBandwidth", Napi::Function::New(env, svc::copyBandwidth));
  exports.Set("socketBandwidth", Napi::Function::New(env, svc::socketBandwidth));
  exports.Set("instructionSets", Napi::Function::New(env, instructionSets));
  exports.Set("physicalCores", Napi::Function::New(env, physicalCores));
  return exports;
}

}  // namespace

NODE_API_MODULE(svc, registerAddon)
