#include "binding/kv_memory.h"

#include <cstring>

#include "binding/checked.h"
#include "cuda/transfer_memory.h"
#include "transfer/memory_tokens.h"

namespace svc {
namespace {

constexpr int64_t kMaxLayerBlock = 1 << 30;

/// A number of bytes is one head's, of one token.
LayerBlockShape shapeFrom(const Napi::CallbackInfo& info) {
  if (!info[2].IsObject()) {
    return {1, 1, 1, {static_cast<size_t>(integerArgument(info, 2, 1, kMaxLayerBlock, "KvMemory: bytes of a layer block"))}};
  }
  const auto given = info[2].As<Napi::Object>();
  const auto number = [&](const char* name) { return given.Get(name).ToNumber().Uint32Value(); };
  LayerBlockShape shape{number("heads"), number("tokens"), number("tileTokens"), {}};
  const auto tileBytes = given.Get("tileBytes").As<Napi::Array>();
  for (uint32_t i = 0; i < tileBytes.Length(); ++i) shape.tileBytes.push_back(tileBytes.Get(i).ToNumber().Uint32Value());
  const bool isShape = shape.tileTokens > 0 && shape.tokens % shape.tileTokens == 0 && shape.bytes() > 0;
  if (!isShape || shape.bytes() > static_cast<size_t>(kMaxLayerBlock)) throw std::runtime_error("KvMemory: no shape of a layer block");
  return shape;
}

}  // namespace

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
  checked(info, [&] {
    SharedMemory memory;
    LayerBlockShape shape = shapeFrom(info);
    const size_t layerBlockBytes = shape.bytes();
    const size_t bytes = layerBlockBytes * blocks * layers;
    const int gpu = info[5].IsUndefined() ? 0 : static_cast<int>(integerArgument(info, 5, 0, 1 << 10, "KvMemory: a GPU"));
    if (info[3].IsString()) memory.device = std::make_shared<cuda::TransferMemory>(info[3].ToString(), info[4].ToString(), gpu, bytes);
    else memory.pages = std::make_shared<SharedPages>(bytes);
    if (memory.device) lane_ = memory.device->openLane(layerBlockBytes);
    table_ = std::make_shared<transfer::SendTable>(transfer::KvMemory(std::move(memory), layers, blocks, std::move(shape)));
    return info.Env().Undefined();
  });
}

/// Makes a new table each time, as a backend does: two engines never share one.
Napi::Value KvMemoryObject::share(const Napi::CallbackInfo& info) {
  table_ = std::make_shared<transfer::SendTable>(table_->memory);
  return Napi::BigInt::New(info.Env(), transfer::MemoryTokens::ofProcess().give(table_));
}

Napi::Value KvMemoryObject::onKvStep(const Napi::CallbackInfo& info) {
  const auto entries = arrayOf<int32_t>(info[0], "onKvStep: the blocks of a step");
  return checked(info, [&] {
    table_->onStep({entries.Data(), entries.ElementLength()});
    return info.Env().Undefined();
  });
}

Napi::Value KvMemoryObject::onKvLayerSaved(const Napi::CallbackInfo& info) {
  const auto layer = integerArgument(info, 0, 0, table_->memory.rows - 1, "onKvLayerSaved: a layer");
  table_->onLayerSaved(static_cast<uint32_t>(layer));
  return info.Env().Undefined();
}

size_t KvMemoryObject::offsetOf(const Napi::CallbackInfo& info) const {
  const transfer::KvMemory& memory = table_->memory;
  const auto layer = integerArgument(info, 0, 0, memory.rows - 1, "KvMemory: a layer");
  const auto block = integerArgument(info, 1, 0, memory.blocks - 1, "KvMemory: a block");
  return memory.offsetOf(static_cast<uint32_t>(layer), static_cast<uint32_t>(block));
}

Napi::Value KvMemoryObject::write(const Napi::CallbackInfo& info) {
  const size_t offset = offsetOf(info), size = table_->memory.layerBlockBytes;
  const auto bytes = arrayOf<uint8_t>(info[2], "KvMemory: bytes");
  if (bytes.ByteLength() != size) throw Napi::RangeError::New(info.Env(), "KvMemory: expected the bytes of one layer block");
  return checked(info, [&] {
    std::memcpy(lane_ ? lane_->pinned() : table_->memory.memory.pages->data() + offset, bytes.Data(), size);
    if (lane_) lane_->store(table_->memory.memory.device->address() + offset, lane_->pinned(), size);
    if (lane_) lane_->finish();
    return info.Env().Undefined();
  });
}

Napi::Value KvMemoryObject::read(const Napi::CallbackInfo& info) {
  const size_t offset = offsetOf(info), size = table_->memory.layerBlockBytes;
  auto bytes = Napi::Uint8Array::New(info.Env(), size);
  return checked(info, [&] {
    if (lane_) lane_->fetch(lane_->pinned(), table_->memory.memory.device->address() + offset, size);
    if (lane_) lane_->finish();
    std::memcpy(bytes.Data(), lane_ ? lane_->pinned() : table_->memory.memory.pages->data() + offset, size);
    return bytes;
  });
}

}  // namespace svc
