// Loading: weights from files into packed memory, KV memory.

#include <map>
#include <optional>

#include "binding/backend.h"

namespace svc {
namespace {

/// Files of one load, each opened once and closed when the load is done.
class Files {
 public:
  const WeightFile& at(const std::string& path) {
    std::unique_ptr<WeightFile>& file = files_[path];
    if (file == nullptr) file = std::make_unique<WeightFile>(path);
    return *file;
  }

 private:
  std::map<std::string, std::unique_ptr<WeightFile>> files_;
};

/// { name, path, byteOffset, dtype, rowLength, firstRow, firstCol }
cpu::Published publishedFrom(const Napi::Value& value, Files& files) {
  const auto object = value.As<Napi::Object>();
  const auto integer = [&](const char* field) { return object.Get(field).ToNumber().Int64Value(); };
  return {&files.at(object.Get("path").ToString()),
          object.Get("name").ToString(),
          static_cast<size_t>(integer("byteOffset")),
          dtypeFrom(object.Get("dtype")),
          integer("rowLength"),
          integer("firstRow"),
          integer("firstCol")};
}

int sizeFrom(const Napi::Value& value, const char* what) {
  const int64_t size = value.ToNumber().Int64Value();
  if (size < 1 || size > (int64_t{1} << 28)) {
    throw ArgumentError("load", std::string(what) + " from 1 to 2^28", std::to_string(size));
  }
  return static_cast<int>(size);
}

cpu::DType computeDType(const Napi::Value& name) {
  const cpu::DType dtype = dtypeFrom(name);
  if (dtype == cpu::DType::F16) throw ArgumentError("load", "f32 or bf16 to compute in", "f16");
  return dtype;
}

/// { weight, n, bias or null }
cpu::WeightPart partFrom(const Napi::Object& object, Files& files) {
  cpu::WeightPart part{publishedFrom(object.Get("weight"), files), sizeFrom(object.Get("n"), "n"), std::nullopt};
  const Napi::Value bias = object.Get("bias");
  if (bias.IsObject()) part.bias = publishedFrom(bias, files);
  return part;
}

template <class T>
Napi::Value indexOfLast(const Napi::Env& env, const std::deque<T>& list) {
  return Napi::Number::New(env, static_cast<double>(list.size() - 1));
}

}  // namespace

/// loadLinear(parts, k, dtype)
Napi::Value Backend::loadLinear(const Info& info) {
  BackendState& s = state();
  const auto list = info[0].As<Napi::Array>();
  const int k = sizeFrom(info[1], "k");
  Files files;
  std::vector<cpu::WeightPart> parts;
  for (uint32_t i = 0; i < list.Length(); ++i) {
    parts.push_back(partFrom(list.Get(i).As<Napi::Object>(), files));
  }
  const cpu::DType dtype = computeDType(info[2]);
  s.stream.run([&] { s.weights.push_back(cpu::packLinear(s.pool, s.kernels, parts, k, dtype)); });
  return indexOfLast(info.Env(), s.weights);
}

/// loadGateUp(gate, up, k, dtype)
Napi::Value Backend::loadGateUp(const Info& info) {
  BackendState& s = state();
  const int k = sizeFrom(info[2], "k");
  Files files;
  const cpu::WeightPart gate = partFrom(info[0].As<Napi::Object>(), files);
  const cpu::WeightPart up = partFrom(info[1].As<Napi::Object>(), files);
  if (gate.n != up.n) throw ArgumentError("loadGateUp", "up of n " + std::to_string(gate.n), std::to_string(up.n));
  const cpu::DType dtype = computeDType(info[3]);
  s.stream.run([&] { s.weights.push_back(cpu::packGateUp(s.pool, s.kernels, gate, up, k, dtype)); });
  return indexOfLast(info.Env(), s.weights);
}

/// loadVector(source, length)
Napi::Value Backend::loadVector(const Info& info) {
  BackendState& s = state();
  Files files;
  const cpu::Published source = publishedFrom(info[0], files);
  const int length = sizeFrom(info[1], "length");
  s.stream.run([&] { s.vectors.push_back(cpu::readVector(s.kernels, source, length)); });
  return indexOfLast(info.Env(), s.vectors);
}

/// makeVector(Float32Array)
Napi::Value Backend::makeVector(const Info& info) {
  const Span<const float> values = args("makeVector", info).float32s(0);
  state().vectors.emplace_back(values.data, values.data + values.length);
  return indexOfLast(info.Env(), state().vectors);
}

/// makeKvCache(layers, blocks, blockSize, kvHeads, headDim, dtype, isShared)
Napi::Value Backend::makeKvCache(const Info& info) {
  const int layers = sizeFrom(info[0], "layers"), blocks = sizeFrom(info[1], "blocks");
  const int blockSize = sizeFrom(info[2], "blockSize"), kvHeads = sizeFrom(info[3], "kvHeads");
  const int headDim = sizeFrom(info[4], "headDim");
  if (blockSize % cpu::kLanes != 0) throw ArgumentError("makeKvCache", "a blockSize that is a multiple of 16", std::to_string(blockSize));
  if (headDim % 2 != 0) throw ArgumentError("makeKvCache", "an even headDim", std::to_string(headDim));
  state().caches.push_back(
      cpu::makeKvCache(layers, blocks, blockSize, kvHeads, headDim, computeDType(info[5]), info[6].ToBoolean()));
  return indexOfLast(info.Env(), state().caches);
}

/// kvBlockBytes(cache)
Napi::Value Backend::kvBlockBytes(const Info& info) {
  Args a = args("kvBlockBytes", info);
  return Napi::Number::New(info.Env(), static_cast<double>(cacheAt(a).layout.blockBytes));
}

/// weightBytes(weight): bytes of the packed panels.
Napi::Value Backend::weightBytes(const Info& info) {
  Args a = args("weightBytes", info);
  const auto& weights = state().weights;
  const auto& weight = weights[a.integerIn(0, static_cast<int64_t>(weights.size()) - 1, "a weight")];
  const double bytes = static_cast<double>(cpu::stepsOf(weight.dtype, weight.k)) * cpu::kStepBytes * weight.panels;
  return Napi::Number::New(info.Env(), bytes);
}

}  // namespace svc
