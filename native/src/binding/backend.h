// The native half of one CPU backend: its threads, its memory and the ops on them. One JavaScript thread owns it. An op
// checks its arguments when it is called and runs on the backend's stream, behind all that were called before.
#pragma once

#include <napi.h>

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "binding/args.h"
#include "cpu/dispatch.h"
#include "cpu/paged_attention.h"
#include "threads/pool.h"
#include "threads/stream.h"
#include "transfer/send_table.h"

namespace svc {

/// What `close` frees.
struct BackendState {
  BackendState(const std::string& isa, int threads) : kernels(cpu::kernelSet(isa)), pool(threads) {}

  cpu::KernelSet kernels;
  ThreadPool pool;
  Arena arena;
  // Growing moves none of them: the stream may be reading.
  std::deque<cpu::PackedWeight> weights;
  std::deque<std::vector<float>> vectors;
  std::deque<cpu::KvCache> caches;
  /// Of the cache whose feed is open.
  std::shared_ptr<transfer::SendTable> feed;
  cpu::AttentionMemory attentionMemory;
  /// Last, so that it has ended when the rest is freed. Only its thread uses the pool.
  Stream stream;
};

/// An array of JavaScript that a recorded op uses when it runs.
struct KeptArray {
  uint64_t place;
  Napi::ObjectReference array;
};

class Backend : public Napi::ObjectWrap<Backend> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit Backend(const Napi::CallbackInfo& info);

 private:
  using Info = Napi::CallbackInfo;
  using Method = Napi::Value (Backend::*)(const Info&);

  /// Turns C++ exceptions into JavaScript errors.
  template <Method method>
  Napi::Value call(const Info& info);

  /// Throws when the backend is closed.
  BackendState& state();
  Args args(const char* op, const Info& info) { return Args(op, info, state().arena); }

  /// Records `body`, which may point into JavaScript's memory only where `args` keeps it. Returns its place.
  template <class Body>
  Napi::Value record(const Info& info, const Args& args, Body body);
  /// Runs `body` behind all that is recorded, and waits.
  template <class Body>
  Napi::Value runNow(const Info& info, const Body& body);

  // stream.cc
  Napi::Value lastPlace(const Info&);
  Napi::Value await(const Info&);
  Napi::Value busySeconds(const Info&);
  void keep(uint64_t place, const std::vector<Napi::Object>& arrays);

  // load.cc: memory that lives as long as the model; each returns an index.
  Napi::Value loadLinear(const Info&);
  Napi::Value loadGateUp(const Info&);
  Napi::Value loadVector(const Info&);
  Napi::Value makeVector(const Info&);
  Napi::Value makeKvCache(const Info&);
  Napi::Value kvBlockBytes(const Info&);
  Napi::Value weightBytes(const Info&);
  Napi::Value growArena(const Info&);
  Napi::Value close(const Info&);

  // feed.cc
  Napi::Value openFeed(const Info&);
  Napi::Value feedStep(const Info&);
  Napi::Value feedLayer(const Info&);

  // products.cc
  Napi::Value linear(const Info&);
  Napi::Value siluGateUp(const Info&);

  // rows.cc
  Napi::Value embedding(const Info&);
  Napi::Value rmsNorm(const Info&);
  Napi::Value rmsNormHeads(const Info&);
  Napi::Value rope(const Info&);
  Napi::Value gatherRows(const Info&);
  Napi::Value read(const Info&);
  Napi::Value write(const Info&);

  // attention.cc
  Napi::Value storeKv(const Info&);
  Napi::Value attention(const Info&);

  // sample.cc
  Napi::Value sample(const Info&);

  // logits.cc
  Napi::Value restrictLogits(const Info&);
  Napi::Value editLogits(const Info&);
  Napi::Value logprobs(const Info&);

  // probes.cc
  Napi::Value readBandwidth(const Info&);
  Napi::Value matrixPeak(const Info&);
  Napi::Value forkJoinSeconds(const Info&);

  const cpu::PackedWeight& weightAt(Args&, bool isGateUp);
  const std::vector<float>& vectorAt(Args&);
  const cpu::KvCache& cacheAt(Args&);

  /// Released on the JavaScript thread once the stream is past them.
  std::deque<KeptArray> keptArrays_;
  /// Freed before the arrays: its stream may be writing into them.
  std::unique_ptr<BackendState> state_;
};

template <class Body>
Napi::Value Backend::record(const Info& info, const Args& args, Body body) {
  const uint64_t place = state().stream.record(std::move(body));
  keep(place, args.kept());
  return Napi::Number::New(info.Env(), static_cast<double>(place));
}

template <class Body>
Napi::Value Backend::runNow(const Info& info, const Body& body) {
  state().stream.run(body);
  return info.Env().Undefined();
}

/// By the names that the op interface uses.
cpu::DType dtypeFrom(const Napi::Value& name);

}  // namespace svc
