// Tells the transfer threads which blocks of a backend's cache are computed.

#include "binding/backend.h"
#include "binding/kv_memory.h"

namespace svc {
namespace {

transfer::SendTable& openedFeed(const BackendState& state) {
  if (state.feed == nullptr) throw ArgumentError("feed", "a feed that is open", "none");
  return *state.feed;
}

}  // namespace

/// openFeed(cache)
Napi::Value Backend::openFeed(const Info& info) {
  Args a = args("openFeed", info);
  const cpu::KvCache& cache = cacheAt(a);
  if (cache.shared == nullptr) throw ArgumentError("openFeed", "a cache that is shared", "one that is not");
  state().feed = std::make_shared<transfer::SendTable>(
      transfer::KvMemory(cache.shared, static_cast<uint32_t>(cache.layers), static_cast<uint32_t>(cache.blocks),
                         cache.layout.blockBytes));
  return giveToken(info.Env(), state().feed);
}

Napi::Value Backend::feedStep(const Info& info) {
  svc::feedStep(openedFeed(state()), info);
  return info.Env().Undefined();
}

Napi::Value Backend::feedLayer(const Info& info) {
  svc::feedLayer(openedFeed(state()), info);
  return info.Env().Undefined();
}

}  // namespace svc
