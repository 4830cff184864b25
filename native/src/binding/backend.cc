// Construction, the table of methods, and what they share.

#include "binding/backend.h"

namespace svc {

template <Backend::Method method>
Napi::Value Backend::call(const Info& info) {
  try {
    return (this->*method)(info);
  } catch (const Napi::Error&) {
    throw;
  } catch (const ArgumentError& error) {
    Napi::Error wrapped = Napi::RangeError::New(info.Env(), error.what());
    wrapped.Set("op", Napi::String::New(info.Env(), error.op));
    wrapped.Set("expected", Napi::String::New(info.Env(), error.expected));
    wrapped.Set("got", Napi::String::New(info.Env(), error.got));
    throw wrapped;
  } catch (const std::exception& error) {
    throw Napi::Error::New(info.Env(), error.what());
  }
}

Napi::Function Backend::define(Napi::Env env) {
  return DefineClass(env, "Backend",
                     {
                         InstanceMethod<&Backend::call<&Backend::loadLinear>>("loadLinear"),
                         InstanceMethod<&Backend::call<&Backend::loadGateUp>>("loadGateUp"),
                         InstanceMethod<&Backend::call<&Backend::loadVector>>("loadVector"),
                         InstanceMethod<&Backend::call<&Backend::makeVector>>("makeVector"),
                         InstanceMethod<&Backend::call<&Backend::makeKvCache>>("makeKvCache"),
                         InstanceMethod<&Backend::call<&Backend::kvBlockBytes>>("kvBlockBytes"),
                         InstanceMethod<&Backend::call<&Backend::weightBytes>>("weightBytes"),
                         InstanceMethod<&Backend::call<&Backend::growArena>>("growArena"),
                         InstanceMethod<&Backend::call<&Backend::close>>("close"),
                         InstanceMethod<&Backend::call<&Backend::lastPlace>>("lastPlace"),
                         InstanceMethod<&Backend::call<&Backend::await>>("await"),
                         InstanceMethod<&Backend::call<&Backend::busySeconds>>("busySeconds"),
                         InstanceMethod<&Backend::call<&Backend::openFeed>>("openFeed"),
                         InstanceMethod<&Backend::call<&Backend::feedStep>>("feedStep"),
                         InstanceMethod<&Backend::call<&Backend::feedLayer>>("feedLayer"),
                         InstanceMethod<&Backend::call<&Backend::linear>>("linear"),
                         InstanceMethod<&Backend::call<&Backend::siluGateUp>>("siluGateUp"),
                         InstanceMethod<&Backend::call<&Backend::embedding>>("embedding"),
                         InstanceMethod<&Backend::call<&Backend::rmsNorm>>("rmsNorm"),
                         InstanceMethod<&Backend::call<&Backend::rmsNormHeads>>("rmsNormHeads"),
                         InstanceMethod<&Backend::call<&Backend::rope>>("rope"),
                         InstanceMethod<&Backend::call<&Backend::gatherRows>>("gatherRows"),
                         InstanceMethod<&Backend::call<&Backend::read>>("read"),
                         InstanceMethod<&Backend::call<&Backend::write>>("write"),
                         InstanceMethod<&Backend::call<&Backend::storeKv>>("storeKv"),
                         InstanceMethod<&Backend::call<&Backend::attention>>("attention"),
                         InstanceMethod<&Backend::call<&Backend::sample>>("sample"),
                         InstanceMethod<&Backend::call<&Backend::restrictLogits>>("restrictLogits"),
                         InstanceMethod<&Backend::call<&Backend::editLogits>>("editLogits"),
                         InstanceMethod<&Backend::call<&Backend::logprobs>>("logprobs"),
                         InstanceMethod<&Backend::call<&Backend::readBandwidth>>("readBandwidth"),
                         InstanceMethod<&Backend::call<&Backend::matrixPeak>>("matrixPeak"),
                         InstanceMethod<&Backend::call<&Backend::forkJoinSeconds>>("forkJoinSeconds"),
                     });
}

/// new Backend(instruction set, threads)
Backend::Backend(const Info& info) : Napi::ObjectWrap<Backend>(info) {
  try {
    const std::string isa = info[0].ToString();
    const int threads = info[1].ToNumber().Int32Value();
    if (threads < 1 || threads > 1024) {
      throw ArgumentError("Backend", "1 to 1024 threads", std::to_string(threads));
    }
    state_ = std::make_unique<BackendState>(isa, threads);
  } catch (const Napi::Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Napi::Error::New(info.Env(), error.what());
  }
}

BackendState& Backend::state() {
  if (state_ == nullptr) throw ArgumentError("Backend", "one that is open", "a closed one");
  return *state_;
}

Napi::Value Backend::close(const Info& info) {
  state_.reset();
  keptArrays_.clear();
  return info.Env().Undefined();
}

Napi::Value Backend::growArena(const Info& info) {
  Arena& arena = state().arena;
  arena.grow(static_cast<size_t>(args("growArena", info).integerIn(0, int64_t{1} << 50, "bytes")));
  return Napi::Number::New(info.Env(), static_cast<double>(arena.capacity()));
}

const cpu::PackedWeight& Backend::weightAt(Args& args, bool isGateUp) {
  const auto& weights = state().weights;
  const auto index = args.integerIn(0, static_cast<int64_t>(weights.size()) - 1, "a weight");
  if (weights[index].isGateUp != isGateUp) args.fail(isGateUp ? "a gate-and-up weight" : "a linear weight", "the other kind");
  return weights[index];
}

const std::vector<float>& Backend::vectorAt(Args& args) {
  const auto& vectors = state().vectors;
  return vectors[args.integerIn(0, static_cast<int64_t>(vectors.size()) - 1, "a vector")];
}

const cpu::KvCache& Backend::cacheAt(Args& args) {
  const auto& caches = state().caches;
  return caches[args.integerIn(0, static_cast<int64_t>(caches.size()) - 1, "a KV cache")];
}

cpu::DType dtypeFrom(const Napi::Value& name) {
  const std::string text = name.ToString();
  if (text == "f32") return cpu::DType::F32;
  if (text == "bf16") return cpu::DType::Bf16;
  if (text == "f16") return cpu::DType::F16;
  throw ArgumentError("Backend", "f32, bf16 or f16", text);
}

}  // namespace svc
