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
  if (text == "i8") return DType::I8;
  throw ArgumentError("load", "f32, bf16, f16 or i8", text);
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

KvFormat kvFormatFrom(const Napi::Value& name) {
  const std::string text = name.ToString();
  if (text == "f32") return KvFormat::F32;
  if (text == "bf16") return KvFormat::Bf16;
  if (text == "fp8") return KvFormat::Fp8;
  if (text == "int8") return KvFormat::Int8;
  throw ArgumentError("makeKvCache", "f32, bf16, fp8 or int8", text);
}

/// Sums of int8 stay within 32 bits up to this k.
constexpr int kMostInt8K = 1 << 16;

WeightFormat formatFrom(const Napi::Value& name, int k) {
  const std::string text = name.ToString();
  if (text == "f32") return WeightFormat::F32;
  if (text == "bf16") return WeightFormat::Bf16;
  if (text != "int8") throw ArgumentError("load", "f32, bf16 or int8", text);
  if (k > kMostInt8K) throw ArgumentError("load", "k up to 65536 for int8", std::to_string(k));
  return WeightFormat::Int8;
}

/// Numbers that need no scales.
TensorSource floatsFrom(const Napi::Value& value, Files& files) {
  TensorSource source = sourceFrom(value, files);
  if (source.dtype == DType::I8) throw ArgumentError("load", "floats in " + source.name, "i8");
  return source;
}

/// { weight, n, scales or null, bias or null }
LinearPart partFrom(const Napi::Object& object, Files& files, WeightFormat format) {
  LinearPart part{sourceFrom(object.Get("weight"), files), sizeFrom(object.Get("n"), "n"), std::nullopt, std::nullopt};
  const Napi::Value scales = object.Get("scales"), bias = object.Get("bias");
  if (scales.IsObject()) part.scales = floatsFrom(scales, files);
  if (bias.IsObject()) part.bias = floatsFrom(bias, files);
  if ((part.weight.dtype == DType::I8) != part.scales.has_value()) {
    throw ArgumentError("load", "scales for i8, and for nothing else", part.weight.name);
  }
  if (part.scales.has_value() && format != WeightFormat::Int8) {
    throw ArgumentError("load", "int8 as the format of i8 numbers", "another");
  }
  return part;
}

template <class T>
const T& itemAt(const std::vector<const T*>& list, Args& args, const char* what) {
  return *list[args.integerIn(0, static_cast<int64_t>(list.size()) - 1, what)];
}

}  // namespace

/// loadLinear(parts, k, format)
Napi::Value BackendObject::loadLinear(const Info& info) {
  const auto list = info[0].As<Napi::Array>();
  const int k = sizeFrom(info[1], "k");
  const WeightFormat format = formatFrom(info[2], k);
  Files files;
  std::vector<LinearPart> parts;
  for (uint32_t i = 0; i < list.Length(); ++i) {
    parts.push_back(partFrom(list.Get(i).As<Napi::Object>(), files, format));
  }
  return addTo(weights_, backend().loadLinear(parts, k, format), info.Env());
}

/// loadGateUp(gate, up, k, format)
Napi::Value BackendObject::loadGateUp(const Info& info) {
  const int k = sizeFrom(info[2], "k");
  const WeightFormat format = formatFrom(info[3], k);
  Files files;
  const LinearPart gate = partFrom(info[0].As<Napi::Object>(), files, format);
  const LinearPart up = partFrom(info[1].As<Napi::Object>(), files, format);
  if (gate.n != up.n) throw ArgumentError("loadGateUp", "up of n " + std::to_string(gate.n), std::to_string(up.n));
  return addTo(weights_, backend().loadGateUp(gate, up, k, format), info.Env());
}

/// loadVector(source, length)
Napi::Value BackendObject::loadVector(const Info& info) {
  Files files;
  const TensorSource source = floatsFrom(info[0], files);
  return addTo(vectors_, backend().loadVector(source, sizeFrom(info[1], "length")), info.Env());
}

/// makeVector(Float32Array)
Napi::Value BackendObject::makeVector(const Info& info) {
  return addTo(vectors_, backend().makeVector(args("makeVector", info).float32s(0).copy()), info.Env());
}

/// makeKvCache(layers, blocks, blockSize, kvHeads, headDim, format, isShared)
Napi::Value BackendObject::makeKvCache(const Info& info) {
  const KvCacheShape shape{sizeFrom(info[0], "layers"),  sizeFrom(info[1], "blocks"),  sizeFrom(info[2], "blockSize"),
                           sizeFrom(info[3], "kvHeads"), sizeFrom(info[4], "headDim"), kvFormatFrom(info[5])};
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
