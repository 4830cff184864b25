// Tells the transfer threads which blocks of a backend's cache are computed, in the order of the ops.

#include "binding/backend_object.h"
#include "binding/kv_memory.h"

namespace svc {
namespace {

const std::shared_ptr<transfer::SendTable>& opened(const std::shared_ptr<transfer::SendTable>& kvSaves) {
  if (kvSaves == nullptr) throw ArgumentError("KV saves", "a notifier that is open", "none");
  return kvSaves;
}

}  // namespace

/// openKvSaveNotifier(cache)
Napi::Value BackendObject::openKvSaveNotifier(const Info& info) {
  Args a = args("openKvSaveNotifier", info);
  const KvCache& cache = cacheAt(a);
  if (cache.shared == nullptr) throw ArgumentError("openKvSaveNotifier", "a cache that is shared", "one that is not");
  kvSaves_ = std::make_shared<transfer::SendTable>(
      transfer::KvMemory(cache.shared, static_cast<uint32_t>(cache.shape.layers),
                         static_cast<uint32_t>(cache.shape.blocks), cache.layerBlockBytes));
  return giveToken(info.Env(), kvSaves_);
}

/// onKvStep(sends)
Napi::Value BackendObject::onKvStep(const Info& info) {
  Args a = args("onKvStep", info);
  return recorded(info, a, backend().callback([kvSaves = opened(kvSaves_), sends = a.int32s(0).copy()] {
    svc::onKvStep(*kvSaves, sends.data(), static_cast<int64_t>(sends.size()));
  }));
}

/// onKvLayerSaved(layer)
Napi::Value BackendObject::onKvLayerSaved(const Info& info) {
  Args a = args("onKvLayerSaved", info);
  const auto& kvSaves = opened(kvSaves_);
  const auto layer = static_cast<uint32_t>(a.integerIn(0, kvSaves->memory.layers - 1, "a layer"));
  return recorded(info, a, backend().callback([kvSaves, layer] { kvSaves->onLayerSaved(layer); }));
}

}  // namespace svc
