// Where the stream is, waiting for it, and what it writes into until then.

#include "binding/backend.h"

namespace svc {

/// lastPlace(): that of the last op that was called.
Napi::Value Backend::lastPlace(const Info& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(state().stream.lastPlace()));
}

/// await(place, milliseconds): whether the op has run.
Napi::Value Backend::await(const Info& info) {
  Args a = args("await", info);
  Stream& stream = state().stream;
  const auto place = static_cast<uint64_t>(a.integerIn(0, static_cast<int64_t>(stream.lastPlace()), "a place"));
  const Stream::Duration atMost(a.integerIn(0, 60'000, "milliseconds"));
  return Napi::Boolean::New(info.Env(), stream.await(place, atMost));
}

/// busySeconds(): time in which ops ran.
Napi::Value Backend::busySeconds(const Info& info) {
  return Napi::Number::New(info.Env(), state().stream.busySeconds());
}

void Backend::keep(uint64_t place, const std::vector<Napi::Object>& arrays) {
  while (!keptArrays_.empty() && state().stream.hasRun(keptArrays_.front().place)) keptArrays_.pop_front();
  for (const Napi::Object& array : arrays) keptArrays_.push_back({place, Napi::Persistent(array)});
}

}  // namespace svc
