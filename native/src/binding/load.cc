// Loading: weights from files into packed memory, KV memory.

#include <map>
#include <optional>

#include "binding/backend_object.h"

namespace svc {
namespace {

/// The files of one load. Each is opened once, and closed at the end of the load.
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

/// Formats by their names in the op interface.
DType dtypeFrom(const Napi::Value& name) {
  const std::string text = name.ToString();
  if (text == "f32") return DType::F32;
  if (text == "bf16") return DType::Bf16;
  if (text == "f16") return DType::F16;
  throw ArgumentError("load", "f32, bf16 or f16", text);
}

/// { name, path, byteOffset, dtype, rowLength, firstRow, firstCol }
TensorSource sourceFrom(const Napi::Value& value, Files& files) {
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

DType computeDType(const Napi::Value& name) {
  const DType dtype = dtypeFrom(name);
  if (dtype == DType::F16) throw ArgumentError("load", "f32 or bf16 to compute in", "f16");
  return dtype;
}

/// { weight, n, bias or null }
LinearPart partFrom(const Napi::Object& object, Files& files) {
  LinearPart part{sourceFrom(object.Get("weight"), files), sizeFrom(object.Get("n"), "n"), std::nullopt};
  const Napi::Value bias = object.Get("bias");
  if (bias.IsObject()) part.bias = sourceFrom(bias, files);
  return part;
}

/// Keeps `item`, and returns its index.
template <class T>
Napi::Value addTo(std::vector<const T*>& list, const T& item, Napi::Env env) {
  list.push_back(&item);
  return Napi::Number::New(env, static_cast<double>(list.size() - 1));
}

template <class T>
const T& itemAt(const std::vector<const T*>& list, Args& args, const char* what) {
  return *list[args.integerIn(0, static_cast<int64_t>(list.size()) - 1, what)];
}

}  // namespace

/// loadLinear(parts, k, dtype)
Napi::Value BackendObject::loadLinear(const Info& info) {
  const auto list = info[0].As<Napi::Array>();
  const int k = sizeFrom(info[1], "k");
  Files files;
  std::vector<LinearPart> parts;
  for (uint32_t i = 0; i < list.Length(); ++i) {
    parts.push_back(partFrom(list.Get(i).As<Napi::Object>(), files));
  }
  return addTo(weights_, backend().loadLinear(parts, k, computeDType(info[2])), info.Env());
}

/// loadGateUp(gate, up, k, dtype)
Napi::Value BackendObject::loadGateUp(const Info& info) {
  const int k = sizeFrom(info[2], "k");
  Files files;
  const LinearPart gate = partFrom(info[0].As<Napi::Object>(), files);
  const LinearPart up = partFrom(info[1].As<Napi::Object>(), files);
  if (gate.n != up.n) throw ArgumentError("loadGateUp", "up of n " + std::to_string(gate.n), std::to_string(up.n));
  return addTo(weights_, backend().loadGateUp(gate, up, k, computeDType(info[3])), info.Env());
}

/// loadVector(source, length)
Napi::Value BackendObject::loadVector(const Info& info) {
  Files files;
  const TensorSource source = sourceFrom(info[0], files);
  return addTo(vectors_, backend().loadVector(source, sizeFrom(info[1], "length")), info.Env());
}

/// makeVector(Float32Array)
Napi::Value BackendObject::makeVector(const Info& info) {
  return addTo(vectors_, backend().makeVector(args("makeVector", info).float32s(0).copy()), info.Env());
}

/// makeKvCache(layers, blocks, blockSize, kvHeads, headDim, dtype, isShared)
Napi::Value BackendObject::makeKvCache(const Info& info) {
  const KvCacheShape shape{sizeFrom(info[0], "layers"),  sizeFrom(info[1], "blocks"),  sizeFrom(info[2], "blockSize"),
                           sizeFrom(info[3], "kvHeads"), sizeFrom(info[4], "headDim"), computeDType(info[5])};
  if (shape.blockSize % 16 != 0) {
    throw ArgumentError("makeKvCache", "a blockSize that is a multiple of 16", std::to_string(shape.blockSize));
  }
  if (shape.headDim % 2 != 0) throw ArgumentError("makeKvCache", "an even headDim", std::to_string(shape.headDim));
  return addTo(caches_, backend().makeKvCache(shape, info[6].ToBoolean()), info.Env());
}

/// layerBlockBytes(cache)
Napi::Value BackendObject::layerBlockBytes(const Info& info) {
  Args a = args("layerBlockBytes", info);
  return Napi::Number::New(info.Env(), static_cast<double>(cacheAt(a).layerBlockBytes));
}

/// weightBytes(weight): bytes that the processor reads each time the weight is used.
Napi::Value BackendObject::weightBytes(const Info& info) {
  Args a = args("weightBytes", info);
  return Napi::Number::New(info.Env(), static_cast<double>(itemAt(weights_, a, "a weight").bytes));
}

const Weight& BackendObject::weightAt(Args& args, bool isGateUp) {
  const Weight& weight = itemAt(weights_, args, "a weight");
  if (weight.isGateUp != isGateUp) args.fail(isGateUp ? "a gate-and-up weight" : "a linear weight", "the other kind");
  return weight;
}

const Vector& BackendObject::vectorAt(Args& args) { return itemAt(vectors_, args, "a vector"); }

const KvCache& BackendObject::cacheAt(Args& args) { return itemAt(caches_, args, "a KV cache"); }

}  // namespace svc
