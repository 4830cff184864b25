// linear, addLinear, headLinear and gateUp.

#include "binding/backend_object.h"

namespace svc {
namespace {

/// Numbers of a head; no model has nearly as many.
constexpr int kMostHeadWidth = 1 << 20;

}  // namespace

/// linear(weight, x[4], out[4], add)
Napi::Value BackendObject::linear(const Info& info) {
  Args a = args("linear", info);
  const Weight& weight = weightAt(a, false);
  const DType dtype = a.inputDType(weight.format);
  const Rows x = a.rows(dtype, weight.k, paddedCols(dtype, weight.k));
  const Rows out = a.rows(DType::F32, weight.n);
  a.expectEqual("rows of the output", x.rows, out.rows);
  return recorded(info, a, backend().linear(weight, x, out, a.boolean()));
}

/// headLinear(weights, width, keepsRest, isHalf, x[4], out[4])
Napi::Value BackendObject::headLinear(const Info& info) {
  Args a = args("headLinear", info);
  const Span<const int32_t> indices = a.int32s(1);
  a.expectBelow("weights", indices, static_cast<int64_t>(weights_.size()));
  HeadWeights heads{};
  for (int64_t i = 0; i < indices.length; ++i) heads.weights.push_back(weights_[indices.data[i]]);
  const Weight& first = *heads.weights.front();
  for (const Weight* weight : heads.weights) {
    const bool isFloats = weight->format == WeightFormat::F32 || weight->format == WeightFormat::Half;
    const bool isAlike = weight->n == first.n && weight->k == first.k && weight->format == first.format;
    if (!isFloats || !isAlike || weight->isGateUp) a.fail("linear weights of floats, of one shape and format", "others");
  }
  heads.width = static_cast<int>(a.integerIn(first.k, kMostHeadWidth, "width"));
  heads.keepsRest = a.boolean();
  const DType dtype = a.dtypeFlag();
  const int64_t outWidth = first.n + (heads.keepsRest ? heads.width - first.k : 0);
  const Rows x = a.rows(dtype, indices.length * heads.width);
  const Rows out = a.rows(DType::F32, indices.length * outWidth);
  a.expectEqual("rows of the output", x.rows, out.rows);
  return recorded(info, a, backend().headLinear(std::move(heads), dtype, x, out));
}

/// gateUp(activation, weight, x[4], out[4]): rows of the output are written in whole vectors.
Napi::Value BackendObject::gateUp(const Info& info) {
  Args a = args("gateUp", info);
  const GatedActivation activation = a.gatedActivation();
  const Weight& weight = weightAt(a, true);
  const DType dtype = a.inputDType(weight.format);
  const int64_t written = roundUp(weight.n, dtype == DType::F32 ? kF32Vector : kHalfDepth);
  const Rows x = a.rows(dtype, weight.k, paddedCols(dtype, weight.k));
  const Rows out = a.rows(dtype, weight.n, written);
  a.expectEqual("rows of the output", x.rows, out.rows);
  return recorded(info, a, backend().gateUp(weight, activation, x, out));
}

}  // namespace svc
