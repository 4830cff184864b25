// The order of the ops: its last position, waiting for a position, and its end.

#include "binding/backend_object.h"

namespace svc {

/// growArena(bytes): the number of bytes that are usable afterwards.
Napi::Value BackendObject::growArena(const Info& info) {
  backend().growArena(static_cast<size_t>(args("growArena", info).integerIn(0, int64_t{1} << 50, "bytes")));
  return Napi::Number::New(info.Env(), static_cast<double>(backend().arena().capacity));
}

/// lastPosition(): the position of the op that was called last.
Napi::Value BackendObject::lastPosition(const Info& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(backend().lastPosition()));
}

/// await(position, milliseconds): whether the op has run.
Napi::Value BackendObject::await(const Info& info) {
  Args a = args("await", info);
  const auto last = static_cast<int64_t>(backend().lastPosition());
  const auto position = static_cast<StreamPosition>(a.integerIn(0, last, "a position"));
  const Backend::Duration atMost(a.integerIn(0, 60'000, "milliseconds"));
  return Napi::Boolean::New(info.Env(), backend().await(position, atMost));
}

/// busySeconds(): time in which ops ran.
Napi::Value BackendObject::busySeconds(const Info& info) {
  return Napi::Number::New(info.Env(), backend().busySeconds());
}

/// limitGraphs(launches)
Napi::Value BackendObject::limitGraphs(const Info& info) {
  backend().limitGraphs(static_cast<size_t>(args("limitGraphs", info).integerIn(0, int64_t{1} << 30, "launches")));
  return info.Env().Undefined();
}

/// half(): `f16` or `bf16`, the format of its halves.
Napi::Value BackendObject::half(const Info& info) {
  return Napi::String::New(info.Env(), backend().half() == DType::F16 ? "f16" : "bf16");
}

/// isCompiledByDriver(): whether a driver made the machine code of the kernels.
Napi::Value BackendObject::isCompiledByDriver(const Info& info) {
  return Napi::Boolean::New(info.Env(), backend().isCompiledByDriver());
}

/// graphs(): what is recorded of steps.
Napi::Value BackendObject::graphs(const Info& info) {
  const GraphCounts counts = backend().graphs();
  Napi::Object told = Napi::Object::New(info.Env());
  told.Set("count", static_cast<double>(counts.graphs));
  told.Set("replays", static_cast<double>(counts.replays));
  told.Set("failure", counts.failure);
  return told;
}

/// close(): ends the running op, drops the ops after it, and frees everything.
Napi::Value BackendObject::close(const Info& info) {
  finishSaving();
  closeLinks();
  // They are in memory of the backend's device.
  if (backend_ != nullptr) backend_->enter();
  loras_.clear();
  backend_.reset();
  links_.clear();
  keptArrays_.clear();
  step_.reset();
  sendTable_.reset();
  weights_.clear();
  vectors_.clear();
  caches_.clear();
  return info.Env().Undefined();
}

}  // namespace svc
