// Construction, the table of methods, and their helpers.

#include "binding/backend_object.h"

#include "backend/device_error.h"
#include "backend/not_available.h"
#include "binding/checked.h"
#include "binding/ranks.h"
#include "cpu/cpu_backend.h"
#include "memory/host_memory_error.h"

namespace svc {
namespace {

Napi::Error outOfHostMemory(Napi::Env env, const std::exception& error) {
  Napi::Error wrapped = Napi::Error::New(env, error.what());
  wrapped.Set("isOutOfHostMemory", Napi::Boolean::New(env, true));
  return wrapped;
}

}  // namespace

template <BackendObject::Method method>
Napi::Value BackendObject::call(const Info& info) {
  return run(method, info);
}

Napi::Value BackendObject::run(Method method, const Info& info) {
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
  } catch (const NotAvailable& error) {
    Napi::Error wrapped = Napi::Error::New(info.Env(), error.what());
    wrapped.Set("isNotAvailable", Napi::Boolean::New(info.Env(), true));
    throw wrapped;
  } catch (const DeviceError& error) {
    Napi::Error wrapped = Napi::Error::New(info.Env(), error.what());
    if (error.isOutOfMemory) wrapped.Set("isOutOfMemory", Napi::Boolean::New(info.Env(), true));
    throw wrapped;
  } catch (const HostMemoryError& error) {
    throw outOfHostMemory(info.Env(), error);
  } catch (const std::bad_alloc& error) {
    throw outOfHostMemory(info.Env(), error);
  } catch (const RanksBroken& error) {
    Napi::Error wrapped = Napi::Error::New(info.Env(), error.what());
    wrapped.Set("isRanksBroken", Napi::Boolean::New(info.Env(), true));
    throw wrapped;
  } catch (const std::exception& error) {
    throw Napi::Error::New(info.Env(), error.what());
  }
}

Napi::Function BackendObject::define(Napi::Env env, const char* name, Factory factory) {
  return DefineClass(env, name,
                     {
                         InstanceMethod<&BackendObject::call<&BackendObject::loadLinear>>("loadLinear"),
                         InstanceMethod<&BackendObject::call<&BackendObject::loadGateUp>>("loadGateUp"),
                         InstanceMethod<&BackendObject::call<&BackendObject::openPackedEntry>>("openPackedEntry"),
                         InstanceMethod<&BackendObject::call<&BackendObject::loadPacked>>("loadPacked"),
                         InstanceMethod<&BackendObject::call<&BackendObject::closePackedEntry>>("closePackedEntry"),
                         InstanceMethod<&BackendObject::call<&BackendObject::savePackedEntry>>("savePackedEntry"),
                         InstanceMethod<&BackendObject::call<&BackendObject::loadVector>>("loadVector"),
                         InstanceMethod<&BackendObject::call<&BackendObject::makeVector>>("makeVector"),
                         InstanceMethod<&BackendObject::call<&BackendObject::makeExperts>>("makeExperts"),
                         InstanceMethod<&BackendObject::call<&BackendObject::makeLora>>("makeLora"),
                         InstanceMethod<&BackendObject::call<&BackendObject::freeLora>>("freeLora"),
                         InstanceMethod<&BackendObject::call<&BackendObject::makeKvCache>>("makeKvCache"),
                         InstanceMethod<&BackendObject::call<&BackendObject::freeKvCache>>("freeKvCache"),
                         InstanceMethod<&BackendObject::call<&BackendObject::layerBlockBytes>>("layerBlockBytes"),
                         InstanceMethod<&BackendObject::call<&BackendObject::weightBytes>>("weightBytes"),
                         InstanceMethod<&BackendObject::call<&BackendObject::growArena>>("growArena"),
                         InstanceMethod<&BackendObject::call<&BackendObject::close>>("close"),
                         InstanceMethod<&BackendObject::call<&BackendObject::lastPosition>>("lastPosition"),
                         InstanceMethod<&BackendObject::call<&BackendObject::await>>("await"),
                         InstanceMethod<&BackendObject::call<&BackendObject::busySeconds>>("busySeconds"),
                         InstanceMethod<&BackendObject::call<&BackendObject::limitGraphs>>("limitGraphs"),
                         InstanceMethod<&BackendObject::call<&BackendObject::graphs>>("graphs"),
                         InstanceMethod<&BackendObject::call<&BackendObject::half>>("half"),
                         InstanceMethod<&BackendObject::call<&BackendObject::isCompiledByDriver>>("isCompiledByDriver"),
                         InstanceMethod<&BackendObject::call<&BackendObject::shareKvMemory>>("shareKvMemory"),
                         InstanceMethod<&BackendObject::call<&BackendObject::beginStep>>("beginStep"),
                         InstanceMethod<&BackendObject::call<&BackendObject::linear>>("linear"),
                         InstanceMethod<&BackendObject::call<&BackendObject::gateUp>>("gateUp"),
                         InstanceMethod<&BackendObject::call<&BackendObject::linearLora>>("linearLora"),
                         InstanceMethod<&BackendObject::call<&BackendObject::gateUpLora>>("gateUpLora"),
                         InstanceMethod<&BackendObject::call<&BackendObject::headLinear>>("headLinear"),
                         InstanceMethod<&BackendObject::call<&BackendObject::experts>>("experts"),
                         InstanceMethod<&BackendObject::call<&BackendObject::embedding>>("embedding"),
                         InstanceMethod<&BackendObject::call<&BackendObject::rmsNorm>>("rmsNorm"),
                         InstanceMethod<&BackendObject::call<&BackendObject::layerNorm>>("layerNorm"),
                         InstanceMethod<&BackendObject::call<&BackendObject::qkNorm>>("qkNorm"),
                         InstanceMethod<&BackendObject::call<&BackendObject::headLayerNorm>>("headLayerNorm"),
                         InstanceMethod<&BackendObject::call<&BackendObject::activate>>("activate"),
                         InstanceMethod<&BackendObject::call<&BackendObject::xielu>>("xielu"),
                         InstanceMethod<&BackendObject::call<&BackendObject::gate>>("gate"),
                         InstanceMethod<&BackendObject::call<&BackendObject::cast>>("cast"),
                         InstanceMethod<&BackendObject::call<&BackendObject::addScaled>>("addScaled"),
                         InstanceMethod<&BackendObject::call<&BackendObject::scale>>("scale"),
                         InstanceMethod<&BackendObject::call<&BackendObject::softcap>>("softcap"),
                         InstanceMethod<&BackendObject::call<&BackendObject::clip>>("clip"),
                         InstanceMethod<&BackendObject::call<&BackendObject::scaleColumns>>("scaleColumns"),
                         InstanceMethod<&BackendObject::call<&BackendObject::sparsify>>("sparsify"),
                         InstanceMethod<&BackendObject::call<&BackendObject::joinStreams>>("joinStreams"),
                         InstanceMethod<&BackendObject::call<&BackendObject::addMixed>>("addMixed"),
                         InstanceMethod<&BackendObject::call<&BackendObject::rope>>("rope"),
                         InstanceMethod<&BackendObject::call<&BackendObject::meanRows>>("meanRows"),
                         InstanceMethod<&BackendObject::call<&BackendObject::gatherRows>>("gatherRows"),
                         InstanceMethod<&BackendObject::call<&BackendObject::read>>("read"),
                         InstanceMethod<&BackendObject::call<&BackendObject::readLater>>("readLater"),
                         InstanceMethod<&BackendObject::call<&BackendObject::write>>("write"),
                         InstanceMethod<&BackendObject::call<&BackendObject::storeKv>>("storeKv"),
                         InstanceMethod<&BackendObject::call<&BackendObject::prepareHeads>>("prepareHeads"),
                         InstanceMethod<&BackendObject::call<&BackendObject::convolve>>("convolve"),
                         InstanceMethod<&BackendObject::call<&BackendObject::gatedDelta>>("gatedDelta"),
                         InstanceMethod<&BackendObject::call<&BackendObject::selectiveScan>>("selectiveScan"),
                         InstanceMethod<&BackendObject::call<&BackendObject::attention>>("attention"),
                         InstanceMethod<&BackendObject::call<&BackendObject::sample>>("sample"),
                         InstanceMethod<&BackendObject::call<&BackendObject::restrictLogits>>("restrictLogits"),
                         InstanceMethod<&BackendObject::call<&BackendObject::maskLogits>>("maskLogits"),
                         InstanceMethod<&BackendObject::call<&BackendObject::editLogits>>("editLogits"),
                         InstanceMethod<&BackendObject::call<&BackendObject::logprobs>>("logprobs"),
                         InstanceMethod<&BackendObject::call<&BackendObject::sumRanks>>("sumRanks"),
                         InstanceMethod<&BackendObject::call<&BackendObject::gatherColumns>>("gatherColumns"),
                         InstanceMethod<&BackendObject::call<&BackendObject::shareSampled>>("shareSampled"),
                         InstanceMethod<&BackendObject::call<&BackendObject::makeStageLink>>("makeStageLink"),
                         InstanceMethod<&BackendObject::call<&BackendObject::sendHidden>>("sendHidden"),
                         InstanceMethod<&BackendObject::call<&BackendObject::receiveHidden>>("receiveHidden"),
                         InstanceMethod<&BackendObject::call<&BackendObject::readBandwidth>>("readBandwidth"),
                         InstanceMethod<&BackendObject::call<&BackendObject::matrixPeak>>("matrixPeak"),
                         InstanceMethod<&BackendObject::call<&BackendObject::forkJoinSeconds>>("forkJoinSeconds"),
                     },
                     reinterpret_cast<void*>(factory));
}

BackendObject::BackendObject(const Info& info) : Napi::ObjectWrap<BackendObject>(info) {
  try {
    backend_ = reinterpret_cast<Factory>(info.Data())(info);
  } catch (const Napi::Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Napi::Error::New(info.Env(), error.what());
  }
}

/// An array of processors; none where it is left out.
static ThreadCpus cpusAt(const Napi::Value& value) {
  if (!value.IsTypedArray()) return {};
  const auto array = arrayOf<int32_t>(value, "CpuBackend: processors");
  ThreadCpus cpus(array.Data(), array.Data() + array.ElementLength());
  for (const int cpu : cpus) {
    if (cpu < 0 || cpu >= CPU_SETSIZE) {
      throw ArgumentError("CpuBackend", "processors from 0 to " + std::to_string(CPU_SETSIZE - 1), std::to_string(cpu));
    }
  }
  return cpus;
}

std::unique_ptr<Backend> makeCpuBackend(const Napi::CallbackInfo& info) {
  const std::string isa = info[0].ToString();
  const int threads = info[1].ToNumber().Int32Value();
  if (threads < 1 || threads > 1024) {
    throw ArgumentError("CpuBackend", "1 to 1024 threads", std::to_string(threads));
  }
  return std::make_unique<cpu::CpuBackend>(isa, threads, cpusAt(info[2]), rankMemberFrom(info[3], info[4]));
}

Backend& BackendObject::backend() {
  if (backend_ == nullptr) throw ArgumentError("Backend", "one that is open", "a closed one");
  backend_->enter();
  return *backend_;
}

Napi::Value BackendObject::recorded(const Info& info, const Args& args, StreamPosition position) {
  while (!keptArrays_.empty() && backend().hasRun(keptArrays_.front().position)) keptArrays_.pop_front();
  for (const Napi::Object& array : args.kept()) keptArrays_.push_back({position, Napi::Persistent(array)});
  return Napi::Number::New(info.Env(), static_cast<double>(position));
}

}  // namespace svc
