// KV memory without a backend, for tests and for instances without a model.
#pragma once

#include <napi.h>

#include <memory>

#include "transfer/send_table.h"

namespace svc {

class KvMemoryObject : public Napi::ObjectWrap<KvMemoryObject> {
 public:
  static Napi::Function define(Napi::Env env);
  /// new KvMemory(layers, blocks, layerBlockBytes)
  explicit KvMemoryObject(const Napi::CallbackInfo& info);

 private:
  Napi::Value share(const Napi::CallbackInfo&);
  Napi::Value onKvStep(const Napi::CallbackInfo&);
  Napi::Value onKvLayerSaved(const Napi::CallbackInfo&);
  Napi::Value write(const Napi::CallbackInfo&);
  Napi::Value read(const Napi::CallbackInfo&);
  char* layerBlockAt(const Napi::CallbackInfo& info) const;

  std::shared_ptr<transfer::SendTable> table_;
};

}  // namespace svc
