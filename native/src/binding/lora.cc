// Adapters: the numbers that they add to products, and the products with them.

#include "binding/backend_object.h"

namespace svc {
namespace {

constexpr int64_t kMostColumns = int64_t{1} << 28;

}  // namespace

/// makeLora(isBf16, k, rank, isGateUp, firstColumn, a, scales, b): its index.
Napi::Value BackendObject::makeLora(const Info& info) {
  Args a = args("makeLora", info);
  LoraNumbers numbers{};
  numbers.dtype = a.dtypeFlag();
  numbers.k = static_cast<int>(a.integerIn(1, kMostColumns, "k"));
  numbers.rank = static_cast<int>(a.integerIn(1, kMostColumns, "rank"));
  numbers.isGateUp = a.boolean();
  numbers.firstColumn = static_cast<int>(a.integerIn(0, kMostColumns, "firstColumn"));
  const Span<const float> small = a.float32s(0), scales = a.float32s(0), large = a.float32s(1);
  a.expectEqual("numbers of a", int64_t{numbers.rank} * numbers.k, small.length);
  a.expectEqual("scales", numbers.rank, scales.length);
  const int64_t unit = int64_t{numbers.rank} * (numbers.isGateUp ? 2 : 1);
  if (large.length % unit != 0) a.fail("whole columns of " + std::to_string(unit), std::to_string(large.length));
  if (numbers.isGateUp) a.expectEqual("the first column", 0, numbers.firstColumn);
  numbers.a = small.copy();
  numbers.scales = scales.copy();
  numbers.b = large.copy();
  loras_.push_back(backend().makeLora(numbers));
  return Napi::Number::New(info.Env(), static_cast<double>(loras_.size() - 1));
}

/// freeLora(lora): no op may be called with it any more.
Napi::Value BackendObject::freeLora(const Info& info) {
  Args a = args("freeLora", info);
  loras_[a.integerIn(0, static_cast<int64_t>(loras_.size()) - 1, "a lora")] = nullptr;
  return info.Env().Undefined();
}

/// Reads the adapters and the loras of each, two arrays of one length; they must fit the weight.
std::vector<AdapterLora> BackendObject::lorasFor(Args& args, const Weight& weight) {
  const Span<const int32_t> adapters = args.int32s(0), indices = args.int32s(0);
  args.expectEqual("loras", adapters.length, indices.length);
  args.expectBelow("loras", indices, static_cast<int64_t>(loras_.size()));
  std::vector<AdapterLora> loras;
  for (int64_t i = 0; i < indices.length; ++i) {
    const std::shared_ptr<const Lora>& lora = loras_[indices.data[i]];
    if (lora == nullptr) args.fail("a lora that is not freed", std::to_string(indices.data[i]));
    const bool fits = lora->dtype == inputDType(weight.format) && lora->k == weight.k && lora->isGateUp == weight.isGateUp &&
                      lora->firstColumn + lora->n <= weight.n;
    if (!fits) args.fail("a lora of this weight's format, k and columns", "another");
    loras.push_back({adapters.data[i], lora});
  }
  return loras;
}

/// linearLora(step, weight, adapters, loras, x[4], out[4], add)
Napi::Value BackendObject::linearLora(const Info& info) {
  Args a = args("linearLora", info);
  const Backend::Step& step = stepAt(a);
  const Weight& weight = weightAt(a, false);
  std::vector<AdapterLora> loras = lorasFor(a, weight);
  const DType dtype = inputDType(weight.format);
  const Rows x = a.rows(dtype, weight.k, paddedCols(dtype, weight.k));
  const Rows out = a.rows(DType::F32, weight.n);
  a.expectEqual("rows of x", step->tokens(), x.rows);
  a.expectEqual("rows of the output", x.rows, out.rows);
  return recorded(info, a, backend().linearLora(step, std::move(loras), weight, x, out, a.boolean()));
}

/// gateUpLora(step, activation, weight, adapters, loras, x[4], out[4])
Napi::Value BackendObject::gateUpLora(const Info& info) {
  Args a = args("gateUpLora", info);
  const Backend::Step& step = stepAt(a);
  const GatedActivation activation = a.gatedActivation();
  const Weight& weight = weightAt(a, true);
  std::vector<AdapterLora> loras = lorasFor(a, weight);
  const DType dtype = inputDType(weight.format);
  const int64_t written = roundUp(weight.n, dtype == DType::F32 ? kF32Vector : kBf16Depth);
  const Rows x = a.rows(dtype, weight.k, paddedCols(dtype, weight.k));
  const Rows out = a.rows(dtype, weight.n, written);
  a.expectEqual("rows of x", step->tokens(), x.rows);
  a.expectEqual("rows of the output", x.rows, out.rows);
  return recorded(info, a, backend().gateUpLora(step, std::move(loras), weight, activation, x, out));
}

}  // namespace svc
