// A backend as JavaScript sees it: checks the arguments of each call, then hands it to the device. One JavaScript thread
// owns it; src/native/native-backend.ts types it.
#pragma once

#include <napi.h>

#include <deque>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "binding/args.h"
#include "binding/packed_saving.h"
#include "transfer/send_table.h"

namespace svc {

class BackendObject : public Napi::ObjectWrap<BackendObject> {
 public:
  using Info = Napi::CallbackInfo;
  /// Makes the backend from the arguments of the constructor.
  using Factory = std::unique_ptr<Backend> (*)(const Info&);

  /// Defines the class `name`; `factory` makes the backend of each object.
  static Napi::Function define(Napi::Env env, const char* name, Factory factory);
  explicit BackendObject(const Info& info);
  ~BackendObject() override {
    if (saving_ != nullptr) saving_->finish();
    closeLinks();
  }

 private:
  using Method = Napi::Value (BackendObject::*)(const Info&);

  /// An array of JavaScript that a recorded op uses when it runs.
  struct KeptArray {
    StreamPosition position;
    Napi::ObjectReference array;
  };

  /// What JavaScript calls, a function of its own for each method.
  template <Method method>
  Napi::Value call(const Info& info);
  /// Turns C++ exceptions into JavaScript errors; one for all methods, since this is much to compile.
  Napi::Value run(Method method, const Info& info);

  /// Throws if the backend is closed; else its device is the one that this thread uses.
  Backend& backend();
  Args args(const char* op, const Info& info) { return Args(op, info, backend()); }
  /// The position of the op that was just called. Keeps the arrays in `args` until that op has run.
  Napi::Value recorded(const Info& info, const Args& args, StreamPosition position);

  // load.cc: memory that lives as long as the model; each returns an index.
  Napi::Value loadLinear(const Info&);
  Napi::Value loadGateUp(const Info&);
  Napi::Value loadVector(const Info&);
  Napi::Value makeVector(const Info&);
  Napi::Value makeKvCache(const Info&);
  Napi::Value freeKvCache(const Info&);
  Napi::Value shareKvMemory(const Info&);
  Napi::Value layerBlockBytes(const Info&);
  Napi::Value weightBytes(const Info&);
  /// Keeps `item`, and returns its index.
  template <class T>
  static Napi::Value addTo(std::vector<const T*>& list, const T& item, Napi::Env env) {
    list.push_back(&item);
    return Napi::Number::New(env, static_cast<double>(list.size() - 1));
  }
  const Weight& weightAt(Args&, bool isGateUp);
  const Vector& vectorAt(Args&);
  /// Null for the index -1.
  const Vector* vectorOrNullAt(Args&);
  const Experts& expertsAt(Args&);
  const KvCache& cacheAt(Args&);

  // packed_cache.cc
  Napi::Value openPackedEntry(const Info&);
  Napi::Value loadPacked(const Info&);
  Napi::Value closePackedEntry(const Info&);
  Napi::Value savePackedEntry(const Info&);
  /// Afterwards nobody reads the weights on another thread, and whoever waits for an entry knows if it was given up.
  void finishSaving();

  // stream.cc
  Napi::Value growArena(const Info&);
  Napi::Value lastPosition(const Info&);
  Napi::Value await(const Info&);
  Napi::Value busySeconds(const Info&);
  Napi::Value limitGraphs(const Info&);
  Napi::Value graphs(const Info&);
  Napi::Value half(const Info&);
  Napi::Value isCompiledByDriver(const Info&);
  Napi::Value close(const Info&);

  // step.cc
  Napi::Value beginStep(const Info&);
  Napi::Value rope(const Info&);
  Napi::Value storeKv(const Info&);
  Napi::Value prepareHeads(const Info&);
  Napi::Value attention(const Info&);
  const Backend::Step& stepAt(Args&);
  RopeHeads ropeHeadsAt(Args&);
  void checkRope(const Args&, const RopeHeads&, const Vector& table, int64_t cols) const;
  StreamPosition stored(int layer, StreamPosition position);

  // recurrent.cc
  Napi::Value convolve(const Info&);
  Napi::Value gatedDelta(const Info&);
  Napi::Value selectiveScan(const Info&);
  StatePlace statePlaceAt(Args&, const Backend::Step&);

  // elementwise.cc
  Napi::Value embedding(const Info&);
  Napi::Value rmsNorm(const Info&);
  Napi::Value layerNorm(const Info&);
  Napi::Value qkNorm(const Info&);
  Napi::Value headLayerNorm(const Info&);
  Napi::Value activate(const Info&);
  Napi::Value xielu(const Info&);
  Napi::Value gate(const Info&);
  Napi::Value cast(const Info&);
  Napi::Value addScaled(const Info&);
  Napi::Value scale(const Info&);
  Napi::Value softcap(const Info&);
  Napi::Value clip(const Info&);
  Napi::Value scaleColumns(const Info&);
  Napi::Value sparsify(const Info&);
  Napi::Value joinStreams(const Info&);
  Napi::Value addMixed(const Info&);
  Napi::Value meanRows(const Info&);
  Napi::Value gatherRows(const Info&);
  Napi::Value read(const Info&);
  Napi::Value readLater(const Info&);
  Napi::Value write(const Info&);

  // matmul.cc
  Napi::Value linear(const Info&);
  Napi::Value gateUp(const Info&);
  Napi::Value headLinear(const Info&);

  // experts.cc
  Napi::Value makeExperts(const Info&);
  Napi::Value experts(const Info&);

  // lora.cc
  Napi::Value makeLora(const Info&);
  Napi::Value freeLora(const Info&);
  Napi::Value linearLora(const Info&);
  Napi::Value gateUpLora(const Info&);
  std::vector<AdapterLora> lorasFor(Args&, const Weight&);

  // logits.cc
  Napi::Value restrictLogits(const Info&);
  Napi::Value maskLogits(const Info&);
  Napi::Value editLogits(const Info&);
  Napi::Value logprobs(const Info&);
  Napi::Value sample(const Info&);

  // ranks.cc
  Napi::Value sumRanks(const Info&);
  Napi::Value gatherColumns(const Info&);
  Napi::Value shareSampled(const Info&);
  RankMember& rankMember(const Args&);

  // stages.cc
  Napi::Value makeStageLink(const Info&);
  Napi::Value sendHidden(const Info&);
  Napi::Value receiveHidden(const Info&);
  /// Afterwards no op waits for an earlier stage.
  void closeLinks();

  // probes.cc
  Napi::Value readBandwidth(const Info&);
  Napi::Value matrixPeak(const Info&);
  Napi::Value forkJoinSeconds(const Info&);

  /// Released on the JavaScript thread after the stream has run the ops that use them.
  std::deque<KeptArray> keptArrays_;
  /// That this stage receives from.
  std::vector<std::shared_ptr<StageLink>> links_;
  /// Freed before the arrays and the links, since its ops may still use them.
  std::unique_ptr<Backend> backend_;
  // By index; the backend owns them.
  std::vector<const Weight*> weights_;
  std::vector<const Vector*> vectors_;
  std::vector<const Experts*> experts_;
  std::vector<const KvCache*> caches_;
  /// Null where freed: ops that use one share it until they have run.
  std::vector<std::shared_ptr<const Lora>> loras_;
  /// The step that began last, and the number of steps so far.
  Backend::Step step_;
  int64_t stepId_ = 0;
  /// The entry of the packed cache that is being written, or was; null before.
  std::shared_ptr<PackedSaving> saving_;
  /// Where other threads learn which layer blocks are stored; null until a cache is shared.
  std::shared_ptr<transfer::SendTable> sendTable_;
  /// Whether the step that began last completes blocks for them.
  bool isSending_ = false;
};

/// new CpuBackend(instruction set, threads, processors to bind them to, rank group, rank): the last two are undefined where it is alone
std::unique_ptr<Backend> makeCpuBackend(const Napi::CallbackInfo& info);

}  // namespace svc
