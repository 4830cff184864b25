// Adapters: the numbers that they add to products, and the products with them.

#include "binding/backend_object.h"

namespace svc {
namespace {

constexpr int64_t kMostColumns = int64_t{1} << 28;

/// Reads the parts, and checks that they are of `rank` ranks and of columns of their own, `columns` in all.
std::vector<LoraPart> loraParts(Args& a, int64_t columns, int64_t rank) {
  const Span<const int32_t> shapes = a.int32s(0);
  a.expectEqual("whole parts of 4 numbers, those too many", 0, shapes.length % 4);
  std::vector<LoraPart> parts;
  int64_t end = 0;
  for (const int32_t* shape = shapes.data; shape < shapes.data + shapes.length; shape += 4) {
    const LoraPart& part = parts.emplace_back(LoraPart{shape[0], shape[1], shape[2], shape[3]});
    const auto expectWithin = [&](const char* what, int64_t first, int64_t count, int64_t least, int64_t most) {
      if (first >= least && count > 0 && first + count <= most) return;
      a.fail(std::string(what) + " from " + std::to_string(least) + " to " + std::to_string(most - 1),
             std::to_string(count) + " from " + std::to_string(first));
    };
    expectWithin("columns of a part", part.firstColumn, part.columns, end, columns);
    expectWithin("ranks of a part", part.firstRank, part.ranks, 0, rank);
    end = int64_t{part.firstColumn} + part.columns;
  }
  return parts;
}

}  // namespace

/// makeLora(isHalf, k, n, isGateUp, a, scales, parts, b): its index.
Napi::Value BackendObject::makeLora(const Info& info) {
  Args a = args("makeLora", info);
  LoraNumbers numbers{};
  numbers.dtype = a.dtypeFlag();
  numbers.k = static_cast<int>(a.integerIn(1, kMostColumns, "k"));
  numbers.n = static_cast<int>(a.integerIn(1, kMostColumns, "n"));
  numbers.isGateUp = a.boolean();
  const Span<const float> small = a.float32s(0), scales = a.float32s(1);
  a.expectEqual("numbers of a", scales.length * numbers.k, small.length);
  numbers.parts = loraParts(a, int64_t{numbers.n} * (numbers.isGateUp ? 2 : 1), scales.length);
  const Span<const float> large = a.float32s(0);
  int64_t count = 0;
  for (const LoraPart& part : numbers.parts) count += int64_t{part.columns} * part.ranks;
  a.expectEqual("numbers of b", count, large.length);
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
    const bool fits = lora->dtype == args.inputDType(weight.format) && lora->k == weight.k && lora->isGateUp == weight.isGateUp &&
                      lora->n == weight.n;
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
  const DType dtype = a.inputDType(weight.format);
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
  const DType dtype = a.inputDType(weight.format);
  const int64_t written = roundUp(weight.n, dtype == DType::F32 ? kF32Vector : kHalfDepth);
  const Rows x = a.rows(dtype, weight.k, paddedCols(dtype, weight.k));
  const Rows out = a.rows(dtype, weight.n, written);
  a.expectEqual("rows of x", step->tokens(), x.rows);
  a.expectEqual("rows of the output", x.rows, out.rows);
  return recorded(info, a, backend().gateUpLora(step, std::move(loras), weight, activation, x, out));
}

}  // namespace svc
