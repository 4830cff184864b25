// KV memory without a backend, for tests and for instances without a model, and the code that its KV saves share with
// those of a backend.
#pragma once

#include <napi.h>

#include <memory>

#include "transfer/send_table.h"

namespace svc {

/// Passes a step's entries to the table. Throws std::range_error if they do not fit.
void onKvStep(transfer::SendTable& table, const int32_t* entries, int64_t length);
Napi::Value giveToken(Napi::Env env, const std::shared_ptr<transfer::SendTable>& table);

class KvMemoryObject : public Napi::ObjectWrap<KvMemoryObject> {
 public:
  static Napi::Function define(Napi::Env env);
  /// new KvMemory(layers, blocks, layerBlockBytes)
  explicit KvMemoryObject(const Napi::CallbackInfo& info);

 private:
  Napi::Value openKvSaveNotifier(const Napi::CallbackInfo&);
  Napi::Value onKvStep(const Napi::CallbackInfo&);
  Napi::Value onKvLayerSaved(const Napi::CallbackInfo&);
  Napi::Value write(const Napi::CallbackInfo&);
  Napi::Value read(const Napi::CallbackInfo&);
  char* layerBlockAt(const Napi::CallbackInfo& info) const;

  std::shared_ptr<transfer::SendTable> table_;
};

}  // namespace svc
