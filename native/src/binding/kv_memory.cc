#include "binding/kv_memory.h"

#include <cstring>

#include "binding/checked.h"
#include "transfer/memory_tokens.h"

namespace svc {

Napi::Function KvMemoryObject::define(Napi::Env env) {
  return DefineClass(env, "KvMemory",
                     {
                         InstanceMethod<&KvMemoryObject::share>("share"),
                         InstanceMethod<&KvMemoryObject::onKvStep>("onKvStep"),
                         InstanceMethod<&KvMemoryObject::onKvLayerSaved>("onKvLayerSaved"),
                         InstanceMethod<&KvMemoryObject::write>("write"),
                         InstanceMethod<&KvMemoryObject::read>("read"),
                     });
}

KvMemoryObject::KvMemoryObject(const Napi::CallbackInfo& info) : Napi::ObjectWrap<KvMemoryObject>(info) {
  const auto layers = static_cast<uint32_t>(integerArgument(info, 0, 1, 1 << 16, "KvMemory: layers"));
  const auto blocks = static_cast<uint32_t>(integerArgument(info, 1, 1, 1 << 30, "KvMemory: blocks"));
  const auto layerBlockBytes = static_cast<size_t>(integerArgument(info, 2, 1, 1 << 30, "KvMemory: bytes of a layer block"));
  checked(info, [&] {
    auto pages = std::make_shared<SharedPages>(layerBlockBytes * blocks * layers);
    table_ = std::make_shared<transfer::SendTable>(transfer::KvMemory(std::move(pages), layers, blocks, layerBlockBytes));
    return info.Env().Undefined();
  });
}

/// Makes a new table each time, as a backend does: two engines never share one.
Napi::Value KvMemoryObject::share(const Napi::CallbackInfo& info) {
  table_ = std::make_shared<transfer::SendTable>(table_->memory);
  return Napi::BigInt::New(info.Env(), transfer::MemoryTokens::ofProcess().give(table_));
}

Napi::Value KvMemoryObject::onKvStep(const Napi::CallbackInfo& info) {
  const auto entries = info[0].As<Napi::Int32Array>();
  return checked(info, [&] {
    table_->onStep({entries.Data(), entries.ElementLength()});
    return info.Env().Undefined();
  });
}

Napi::Value KvMemoryObject::onKvLayerSaved(const Napi::CallbackInfo& info) {
  const auto layer = integerArgument(info, 0, 0, table_->memory.layers - 1, "onKvLayerSaved: a layer");
  table_->onLayerSaved(static_cast<uint32_t>(layer));
  return info.Env().Undefined();
}

char* KvMemoryObject::layerBlockAt(const Napi::CallbackInfo& info) const {
  const transfer::KvMemory& memory = table_->memory;
  const auto layer = integerArgument(info, 0, 0, memory.layers - 1, "KvMemory: a layer");
  const auto block = integerArgument(info, 1, 0, memory.blocks - 1, "KvMemory: a block");
  return memory.layerBlock(static_cast<uint32_t>(layer), static_cast<uint32_t>(block));
}

Napi::Value KvMemoryObject::write(const Napi::CallbackInfo& info) {
  char* layerBlock = layerBlockAt(info);
  const auto bytes = info[2].As<Napi::Uint8Array>();
  if (bytes.ByteLength() != table_->memory.layerBlockBytes) {
    throw Napi::RangeError::New(info.Env(), "KvMemory: expected the bytes of one layer block");
  }
  std::memcpy(layerBlock, bytes.Data(), bytes.ByteLength());
  return info.Env().Undefined();
}

Napi::Value KvMemoryObject::read(const Napi::CallbackInfo& info) {
  const char* layerBlock = layerBlockAt(info);
  const size_t size = table_->memory.layerBlockBytes;
  auto bytes = Napi::Uint8Array::New(info.Env(), size);
  std::memcpy(bytes.Data(), layerBlock, size);
  return bytes;
}

}  // namespace svc
