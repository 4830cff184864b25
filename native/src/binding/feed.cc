// Tells the transfer threads which blocks of a backend's cache are computed.

#include "binding/backend.h"
#include "binding/kv_memory.h"

namespace svc {
namespace {

const std::shared_ptr<transfer::SendTable>& openedFeed(const BackendState& state) {
  if (state.feed == nullptr) throw ArgumentError("feed", "a feed that is open", "none");
  return state.feed;
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
  Args a = args("feedStep", info);
  return record(info, a, [feed = openedFeed(state()), sends = a.int32s(0).copy()] {
    svc::feedStep(*feed, sends.data(), static_cast<int64_t>(sends.size()));
  });
}

Napi::Value Backend::feedLayer(const Info& info) {
  Args a = args("feedLayer", info);
  const auto& feed = openedFeed(state());
  const auto layer = static_cast<uint32_t>(a.integerIn(0, feed->memory.layers - 1, "a layer"));
  return record(info, a, [feed, layer] { feed->feedLayer(layer); });
}

}  // namespace svc
