// KV memory without a backend, for tests and for instances without a model.
#pragma once

#include <napi.h>

#include <memory>

#include "transfer/send_table.h"

namespace svc {

class KvMemoryObject : public Napi::ObjectWrap<KvMemoryObject> {
 public:
  static Napi::Function define(Napi::Env env);
  /// new KvMemory(layers, blocks, bytes of a layer block or { heads, tokens, tileTokens, tileBytes }, driver or nothing, kernels, number of the GPU):
  /// of a GPU of that driver, or of the host
  explicit KvMemoryObject(const Napi::CallbackInfo& info);

 private:
  Napi::Value share(const Napi::CallbackInfo&);
  Napi::Value onKvStep(const Napi::CallbackInfo&);
  Napi::Value onKvLayerSaved(const Napi::CallbackInfo&);
  Napi::Value write(const Napi::CallbackInfo&);
  Napi::Value read(const Napi::CallbackInfo&);
  /// Of the layer block that a call names.
  size_t offsetOf(const Napi::CallbackInfo& info) const;

  std::shared_ptr<transfer::SendTable> table_;
  /// Null for memory of the host; its pinned memory is one layer block.
  std::unique_ptr<CopyLane> lane_;
};

}  // namespace svc
