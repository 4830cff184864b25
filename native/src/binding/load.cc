// Loading: weights from files into packed memory, KV memory.

#include <map>
#include <optional>

#include "binding/backend_object.h"
#include "transfer/memory_tokens.h"

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

/// Throws where the value is an array of another type.
template <class T>
Napi::TypedArrayOf<T> arrayFrom(const Napi::Value& value, const std::string& what) {
  constexpr bool isFloat = std::is_same_v<T, float>;
  static_assert(isFloat || std::is_same_v<T, int32_t>);
  constexpr napi_typedarray_type kType = isFloat ? napi_float32_array : napi_int32_array;
  const bool isOfType = value.IsTypedArray() && value.As<Napi::TypedArray>().TypedArrayType() == kType;
  if (isOfType) return value.As<Napi::TypedArrayOf<T>>();
  throw ArgumentError("load", what + " in " + (isFloat ? "a Float32Array" : "an Int32Array"), "something else");
}

std::optional<DType> blocksFrom(const std::string& text) {
  static const std::map<std::string, DType> kBlocks = {
      {"q4_0", DType::Q4_0},     {"q4_1", DType::Q4_1},     {"q5_0", DType::Q5_0}, {"q5_1", DType::Q5_1},
      {"q8_0", DType::Q8_0},     {"q2_k", DType::Q2_K},     {"q3_k", DType::Q3_K}, {"q4_k", DType::Q4_K},
      {"q5_k", DType::Q5_K},     {"q6_k", DType::Q6_K},     {"mxfp4", DType::Mxfp4}, {"iq4_nl", DType::Iq4Nl},
      {"iq4_xs", DType::Iq4Xs},  {"tq1_0", DType::Tq1_0},   {"tq2_0", DType::Tq2_0}, {"i2_s", DType::I2_S}};
  const auto found = kBlocks.find(text);
  return found == kBlocks.end() ? std::nullopt : std::optional(found->second);
}

/// Formats by their names in the op interface.
DType dtypeFrom(const Napi::Value& name) {
  const std::string text = name.ToString();
  if (text == "f32") return DType::F32;
  if (text == "bf16") return DType::Bf16;
  if (text == "f16") return DType::F16;
  if (text == "i8") return DType::I8;
  if (text == "u8") return DType::U8;
  if (const auto blocks = blocksFrom(text); blocks.has_value()) return *blocks;
  throw ArgumentError("load", "f32, bf16, f16, i8, u8 or blocks", text);
}

/// { name, path, byteOffset, dtype, rowLength, firstRow, firstCol, pairedRows, planeRows, numbers }
TensorSource sourceFrom(const Napi::Value& value, Files& files) {
  const auto object = value.As<Napi::Object>();
  const auto integer = [&](const char* field) { return object.Get(field).ToNumber().Int64Value(); };
  TensorSource source{&files.at(object.Get("path").ToString()),
                      object.Get("name").ToString(),
                      static_cast<size_t>(integer("byteOffset")),
                      dtypeFrom(object.Get("dtype")),
                      integer("rowLength"),
                      integer("firstRow"),
                      integer("firstCol"),
                      integer("pairedRows"),
                      integer("planeRows")};
  const int blockNumbers = blockOf(source.dtype).numbers;
  if (source.rowLength % blockNumbers != 0 || source.firstCol % blockNumbers != 0) {
    throw ArgumentError("load", "whole blocks of " + std::to_string(blockNumbers) + " numbers", source.name);
  }
  if (source.pairedRows < 0 || source.pairedRows % 2 != 0) {
    throw ArgumentError("load", "an even number of rows of a head", std::to_string(source.pairedRows));
  }
  if (source.planeRows < 0 || (source.planeRows > 0 && source.dtype != DType::I8)) {
    throw ArgumentError("load", "planes of i8 only", std::to_string(source.planeRows));
  }
  const Napi::Value numbers = object.Get("numbers");
  if (!numbers.IsTypedArray()) return source;
  const auto array = arrayFrom<float>(numbers, source.name);
  if (source.dtype != DType::F32) throw ArgumentError("load", "numbers of f32", source.name);
  source.numbers = std::make_shared<const std::vector<float>>(array.Data(), array.Data() + array.ElementLength());
  return source;
}

/// Throws where numbers that were handed over are not `rows` rows of `cols`.
void expectNumbers(const TensorSource& source, int64_t rows, int64_t cols) {
  if (source.numbers == nullptr) return;
  const auto got = static_cast<int64_t>(source.numbers->size());
  if (source.rowLength == cols && got == rows * cols) return;
  throw ArgumentError("load", std::to_string(rows * cols) + " numbers of " + source.name, std::to_string(got));
}

/// A part of a row begins and ends with a block.
void expectWholeBlocks(const TensorSource& source, int count) {
  const int numbers = blockOf(source.dtype).numbers;
  if (count % numbers == 0) return;
  throw ArgumentError("load", "whole blocks of " + std::to_string(numbers) + " numbers", std::to_string(count));
}

int sizeFrom(const Napi::Value& value, const char* what) {
  const int64_t size = value.ToNumber().Int64Value();
  if (size < 1 || size > (int64_t{1} << 28)) {
    throw ArgumentError("load", std::string(what) + " from 1 to 2^28", std::to_string(size));
  }
  return static_cast<int>(size);
}

/// The name of the backend's halves.
std::string nameOf(DType half) { return half == DType::F16 ? "f16" : "bf16"; }

KvFormat kvFormatFrom(const Napi::Value& name, DType half) {
  const std::string text = name.ToString();
  if (text == "f32") return KvFormat::F32;
  if (text == nameOf(half)) return KvFormat::Half;
  if (text == "fp8") return KvFormat::Fp8;
  if (text == "int8") return KvFormat::Int8;
  throw ArgumentError("makeKvCache", "f32, " + nameOf(half) + ", fp8 or int8", text);
}

constexpr int kMostHeads = 1 << 14;

/// [layers, 2] count and size of the heads of each, or nothing.
std::vector<KvHeads> layerHeadsFrom(Span<const int32_t> numbers, int64_t layers) {
  if (numbers.length != 0 && numbers.length != 2 * layers) {
    throw ArgumentError("makeKvCache", "heads of " + std::to_string(layers) + " layers", std::to_string(numbers.length));
  }
  std::vector<KvHeads> heads;
  for (int64_t i = 0; i < numbers.length; i += 2) {
    const KvHeads one{numbers.data[i], numbers.data[i + 1]};
    const bool areHeads = one.count > 0 && one.dim > 0 && one.count <= kMostHeads && one.dim <= kMostHeads;
    if (!areHeads || one.dim % 2 != 0) throw ArgumentError("makeKvCache", "heads of an even size", std::to_string(one.dim));
    heads.push_back(one);
  }
  return heads;
}

/// [layers] the group of each.
LayerPlaces layerPlacesFrom(Span<const int32_t> layerGroups, const std::vector<KvHeads>& layerHeads) {
  const std::vector<int> groups = layerGroups.copy();
  const int layers = static_cast<int>(groups.size());
  if (layers == 0) throw ArgumentError("makeKvCache", "a layer or more", "0");
  for (const int group : groups) {
    if (group < 0 || group >= layers) {
      throw ArgumentError("makeKvCache", "groups below " + std::to_string(layers), std::to_string(group));
    }
  }
  return LayerPlaces(groups, layerHeads);
}

/// What stands behind keysAreValues.
StateShape stateShapeFrom(const Napi::CallbackInfo& info) {
  const auto number = [&](size_t index, const char* what) {
    const int64_t value = info[index].ToNumber().Int64Value();
    if (value < 0 || value > INT32_MAX) throw ArgumentError("makeKvCache", std::string(what) + " of 0 or more", std::to_string(value));
    return static_cast<int>(value);
  };
  return {number(8, "stateLayers"), number(9, "stateSlots"), number(10, "stateWidth")};
}

/// Sums of int8 stay within 32 bits up to this k.
constexpr int kMostInt8K = 1 << 16;

CodeKind codeKindFrom(const std::string& text) {
  if (text == "int4") return CodeKind::Int4;
  if (text == "fp4") return CodeKind::Fp4;
  if (text == "int8") return CodeKind::Int8;
  if (text == "fp8") return CodeKind::Fp8;
  throw ArgumentError("load", "codes of int4, fp4, int8 or fp8", text);
}

/// { kind, groupSize, hasZeros }
CodeFormat codeFormatFrom(const Napi::Object& object) {
  const CodeFormat codes{codeKindFrom(object.Get("kind").ToString()), object.Get("groupSize").ToNumber().Int32Value(),
                         object.Get("hasZeros").ToBoolean() ? CodeOffset::Zero : CodeOffset::None, false};
  const bool areNvfp4 = codes.kind == CodeKind::Fp4 && codes.groupSize == kHalfDepth / 2;
  if (!areNvfp4 && (codes.groupSize < kHalfDepth || codes.groupSize % kHalfDepth != 0)) {
    throw ArgumentError("load", "a groupSize that is a multiple of 32, or 16 for fp4", std::to_string(codes.groupSize));
  }
  const bool isFloat = codes.kind == CodeKind::Fp4 || codes.kind == CodeKind::Fp8;
  if (isFloat && codes.offset == CodeOffset::Zero) throw ArgumentError("load", "no zeros for codes of floats", "zeros");
  return codes;
}

/// A name, which may be that of blocks, or an object for other codes.
WeightForm formFrom(const Napi::Value& value, int k, DType half) {
  if (value.IsObject()) return {WeightFormat::Codes, codeFormatFrom(value.As<Napi::Object>())};
  const std::string text = value.ToString();
  if (text == "f32") return {WeightFormat::F32, {}};
  if (text == nameOf(half)) return {WeightFormat::Half, {}};
  if (const auto blocks = blocksFrom(text); blocks.has_value()) return {WeightFormat::Codes, codesOfBlocks(*blocks)};
  if (text != "int8") throw ArgumentError("load", "f32, " + nameOf(half) + ", int8, blocks or codes", text);
  if (k > kMostInt8K) throw ArgumentError("load", "k up to 65536 for int8", std::to_string(k));
  return {WeightFormat::Int8, {}};
}

/// What numbers can be quantised to while they are packed.
bool isQuantizedHere(const CodeFormat& codes) {
  return codes.offset == CodeOffset::None && !codes.hasByteScales && (codes.kind == CodeKind::Int4 || codes.kind == CodeKind::Fp8);
}

/// Formats of whole numbers that say nothing of their size.
bool needsScalesBeside(DType dtype) { return dtype == DType::I8 || dtype == DType::I2_S; }

/// Numbers that need no scales.
TensorSource floatsFrom(const Napi::Value& value, Files& files) {
  TensorSource source = sourceFrom(value, files);
  if (needsScalesBeside(source.dtype) || source.dtype == DType::U8) {
    throw ArgumentError("load", "floats in " + source.name, "whole numbers");
  }
  return source;
}

template <class T>
std::vector<T> numbersFrom(const Napi::Value& value, size_t length, const char* what) {
  const auto array = arrayFrom<T>(value, what);
  if (array.ElementLength() == length) return {array.Data(), array.Data() + length};
  throw ArgumentError("load", std::to_string(length) + " " + what, std::to_string(array.ElementLength()));
}

CodeOrder orderFrom(const Napi::Value& value) {
  const std::string text = value.ToString();
  if (text == "rows") return CodeOrder::Rows;
  if (text == "columns") return CodeOrder::Columns;
  if (text == "awq") return CodeOrder::Awq;
  throw ArgumentError("load", "codes in the order of rows, columns or awq", text);
}

/// { order, offset, scales, zeros or null, columns or null }
StoredCodes storedFrom(const Napi::Object& object, const TensorSource& weight, int n, int k, const CodeFormat& codes) {
  if (codes.hasByteScales || codes.offset == CodeOffset::Minimum) throw ArgumentError("load", "blocks of such codes", weight.name);
  const int groups = static_cast<int>(roundUp(k, codes.groupSize) / codes.groupSize);
  const size_t numScales = static_cast<size_t>(n) * groups;
  StoredCodes stored{orderFrom(object.Get("order")), static_cast<uint8_t>(object.Get("offset").ToNumber().Uint32Value()),
                     numbersFrom<float>(object.Get("scales"), numScales, "scales"), {}, {}};
  const Napi::Value zeros = object.Get("zeros"), columns = object.Get("columns");
  if (zeros.IsTypedArray()) stored.zeros = numbersFrom<float>(zeros, numScales, "zeros");
  if (!stored.zeros.empty() && codes.offset != CodeOffset::Zero) throw ArgumentError("load", "a form with zeros", "zeros");
  if (columns.IsTypedArray()) stored.columns = numbersFrom<int32_t>(columns, k, "columns");
  for (const int32_t column : stored.columns) {
    if (column < 0 || column >= k) throw ArgumentError("load", "columns below k", std::to_string(column));
  }
  const int64_t perByte = 8 / codeBits(codes.kind);
  const int64_t rowBytes = stored.order == CodeOrder::Rows      ? (k + perByte - 1) / perByte
                           : stored.order == CodeOrder::Columns ? int64_t{n} * 4
                                                                : int64_t{n} / 8 * 4;
  const bool isWhole = stored.order == CodeOrder::Rows || k % (4 * perByte) == 0;
  const bool isAwqOf4 = stored.order != CodeOrder::Awq || (perByte == 2 && n % 8 == 0);
  const bool fits = weight.firstCol + rowBytes <= weight.rowLength;
  if (weight.dtype != DType::U8 || !fits || !isWhole || !isAwqOf4) {
    throw ArgumentError("load", "rows of " + std::to_string(rowBytes) + " bytes of codes", weight.name);
  }
  return stored;
}

/// { weight, n, scales or null, codes or null, bias or null }
LinearPart partFrom(const Napi::Object& object, Files& files, const WeightForm& form, int k) {
  LinearPart part{sourceFrom(object.Get("weight"), files), sizeFrom(object.Get("n"), "n"), {}, {}, {}};
  expectWholeBlocks(part.weight, k);
  const Napi::Value codes = object.Get("codes");
  if (codes.IsObject()) {
    if (form.format != WeightFormat::Codes) throw ArgumentError("load", "codes as the format of codes", "another");
    part.codes = storedFrom(codes.As<Napi::Object>(), part.weight, part.n, k, form.codes);
  } else if (part.weight.dtype == DType::U8) {
    throw ArgumentError("load", "floats in " + part.weight.name, "bytes");
  } else if (isBlocks(part.weight.dtype)) {
    if (form.format == WeightFormat::Codes && codesOfBlocks(part.weight.dtype) != form.codes) {
      throw ArgumentError("load", "the codes that hold the blocks of " + part.weight.name, "others");
    }
  } else if (form.format == WeightFormat::Codes && !isQuantizedHere(form.codes)) {
    throw ArgumentError("load", "codes of int4 or fp8 without zeros to quantise to", part.weight.name);
  }
  const Napi::Value scales = object.Get("scales"), bias = object.Get("bias");
  if (scales.IsObject()) part.scales = floatsFrom(scales, files);
  if (bias.IsObject()) part.bias = floatsFrom(bias, files);
  expectNumbers(part.weight, part.n, k);
  if (part.scales.has_value()) expectNumbers(*part.scales, 1, part.n);
  if (part.bias.has_value()) expectNumbers(*part.bias, 1, part.n);
  const bool hasScales = part.scales.has_value(), needsScales = needsScalesBeside(part.weight.dtype);
  if (needsScales && !hasScales) throw ArgumentError("load", "scales for i8 and i2_s", part.weight.name);
  if (hasScales && !needsScales && !isTernary(part.weight.dtype)) {
    throw ArgumentError("load", "scales for whole numbers alone", part.weight.name);
  }
  if (hasScales && form.format != WeightFormat::Int8) {
    throw ArgumentError("load", "int8 as the format of whole numbers", "another");
  }
  return part;
}

template <class T>
const T& itemAt(const std::vector<const T*>& list, Args& args, const char* what) {
  const T* const item = list[args.integerIn(0, static_cast<int64_t>(list.size()) - 1, what)];
  if (item == nullptr) args.fail(what, "one that was freed");
  return *item;
}

}  // namespace

/// loadLinear(parts, k, form, splitsK)
Napi::Value BackendObject::loadLinear(const Info& info) {
  const auto list = info[0].As<Napi::Array>();
  const int k = sizeFrom(info[1], "k");
  const WeightForm form = formFrom(info[2], k, backend().half());
  Files files;
  std::vector<LinearPart> parts;
  for (uint32_t i = 0; i < list.Length(); ++i) {
    parts.push_back(partFrom(list.Get(i).As<Napi::Object>(), files, form, k));
  }
  const bool splitsK = info[3].As<Napi::Boolean>();
  return addTo(weights_, backend().loadLinear(parts, k, form, splitsK), info.Env());
}

/// loadGateUp(gate, up, k, form)
Napi::Value BackendObject::loadGateUp(const Info& info) {
  const int k = sizeFrom(info[2], "k");
  const WeightForm form = formFrom(info[3], k, backend().half());
  Files files;
  const LinearPart gate = partFrom(info[0].As<Napi::Object>(), files, form, k);
  const LinearPart up = partFrom(info[1].As<Napi::Object>(), files, form, k);
  if (gate.n != up.n) throw ArgumentError("loadGateUp", "up of n " + std::to_string(gate.n), std::to_string(up.n));
  return addTo(weights_, backend().loadGateUp(gate, up, k, form), info.Env());
}

/// loadVector(source, length)
Napi::Value BackendObject::loadVector(const Info& info) {
  Files files;
  const TensorSource source = floatsFrom(info[0], files);
  const int length = sizeFrom(info[1], "length");
  expectWholeBlocks(source, length);
  expectNumbers(source, 1, length);
  return addTo(vectors_, backend().loadVector(source, length), info.Env());
}

/// makeVector(Float32Array)
Napi::Value BackendObject::makeVector(const Info& info) {
  return addTo(vectors_, backend().makeVector(args("makeVector", info).float32s(0).copy()), info.Env());
}

/// makeKvCache(layerGroups, layerHeads, blocks, blockSize, kvHeads, headDim, format, keysAreValues, stateLayers, stateSlots, stateWidth,
/// isShared)
Napi::Value BackendObject::makeKvCache(const Info& info) {
  Args a = args("makeKvCache", info);
  const Span<const int32_t> layerGroups = a.int32s(0);
  const std::vector<KvHeads> layerHeads = layerHeadsFrom(a.int32s(0), layerGroups.length);
  const KvCacheShape shape{layerPlacesFrom(layerGroups, layerHeads),
                           sizeFrom(info[2], "blocks"),
                           sizeFrom(info[3], "blockSize"),
                           sizeFrom(info[4], "kvHeads"),
                           sizeFrom(info[5], "headDim"),
                           kvFormatFrom(info[6], backend().half()),
                           info[7].ToBoolean(),
                           stateShapeFrom(info),
                           layerHeads};
  const bool isShared = info[11].ToBoolean();
  if (shape.blockSize % 16 != 0) {
    throw ArgumentError("makeKvCache", "a blockSize that is a multiple of 16", std::to_string(shape.blockSize));
  }
  if (shape.headDim % 2 != 0) throw ArgumentError("makeKvCache", "an even headDim", std::to_string(shape.headDim));
  return addTo(caches_, backend().makeKvCache(shape, isShared), info.Env());
}

/// freeKvCache(cache): no op may be called with it, or with a step of it, any more.
Napi::Value BackendObject::freeKvCache(const Info& info) {
  Args a = args("freeKvCache", info);
  const KvCache& cache = cacheAt(a);
  if (step_ != nullptr && step_->cache == &cache) step_.reset();
  std::ranges::replace(caches_, &cache, nullptr);
  backend().freeKvCache(cache);
  return info.Env().Undefined();
}

/// shareKvMemory(cache): a token.
Napi::Value BackendObject::shareKvMemory(const Info& info) {
  Args a = args("shareKvMemory", info);
  const KvCache& cache = cacheAt(a);
  if (cache.shared.isNone()) throw ArgumentError("shareKvMemory", "a cache that is shared", "one that is not");
  sendTable_ = std::make_shared<transfer::SendTable>(
      transfer::KvMemory(cache.shared, static_cast<uint32_t>(cache.shape.layers.rows),
                         static_cast<uint32_t>(cache.shape.blocks), cache.layerBlock));
  return Napi::BigInt::New(info.Env(), transfer::MemoryTokens::ofProcess().give(sendTable_));
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

const Vector* BackendObject::vectorOrNullAt(Args& args) {
  if (args.peekInteger() != -1) return &vectorAt(args);
  args.integer();
  return nullptr;
}

const Experts& BackendObject::expertsAt(Args& args) { return itemAt(experts_, args, "experts"); }

const KvCache& BackendObject::cacheAt(Args& args) { return itemAt(caches_, args, "a KV cache"); }

}  // namespace svc
