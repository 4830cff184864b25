// Weights of an earlier load: entries of the packed cache, read in place of packing and written after it.

#include "binding/backend_object.h"

namespace svc {

/// openPackedEntry(path, key)
Napi::Value BackendObject::openPackedEntry(const Info& info) {
  backend().openPackedEntry(info[0].ToString(), info[1].ToString());
  return info.Env().Undefined();
}

/// loadPacked(name)
Napi::Value BackendObject::loadPacked(const Info& info) {
  return addTo(weights_, backend().loadPacked(info[0].ToString()), info.Env());
}

/// closePackedEntry()
Napi::Value BackendObject::closePackedEntry(const Info& info) {
  backend().closePackedEntry();
  return info.Env().Undefined();
}

/// savePackedEntry(path, key, names): of the first weights, in their order; those behind them are another model's.
Napi::Value BackendObject::savePackedEntry(const Info& info) {
  const auto names = info[2].As<Napi::Array>();
  if (names.Length() > weights_.size()) {
    throw ArgumentError("savePackedEntry", "at most " + std::to_string(weights_.size()) + " names",
                        std::to_string(names.Length()));
  }
  std::vector<NamedWeight> weights;
  for (uint32_t i = 0; i < names.Length(); ++i) weights.push_back({names.Get(i).ToString(), weights_[i]});
  finishSaving();
  const std::string path = info[0].ToString(), key = info[1].ToString();
  saving_ = std::make_shared<PackedSaving>(info.Env(), path);
  return PackedSaving::start(saving_, [&from = backend(), path, key, weights](const auto& mayGoOn) {
    return from.savePackedEntry(path, key, weights, mayGoOn);
  });
}

void BackendObject::finishSaving() {
  if (saving_ != nullptr && !saving_->finish()) saving_->rejectGivenUp();
}

}  // namespace svc
