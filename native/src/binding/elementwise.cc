// Ops on single rows: embedding, normalisation, activation, copies between tensors and JavaScript.

#include "binding/backend_object.h"

#include <algorithm>
#include <functional>

namespace svc {

/// embedding(weight, vocab, first, ids, sampled, out[4])
Napi::Value BackendObject::embedding(const Info& info) {
  Args a = args("embedding", info);
  const Weight& table = weightAt(a, false);
  const int64_t vocab = a.integerIn(table.n, INT32_MAX, "a vocabulary"), first = a.integerIn(0, vocab - table.n, "a first token");
  TokenIds tokens = a.tokenIds(vocab, first);
  const Rows out = a.rows(DType::F32, table.k);
  a.expectEqual("rows of the output", tokens.size(), out.rows);
  return recorded(info, a, backend().embedding(table, std::move(tokens), out));
}

/// rmsNorm(isHalf, weight, eps, groups, x[4], out[4])
Napi::Value BackendObject::rmsNorm(const Info& info) {
  Args a = args("rmsNorm", info);
  const DType dtype = a.dtypeFlag();
  const Vector& weight = vectorAt(a);
  const float eps = static_cast<float>(a.real());
  const auto groups = static_cast<int>(a.integerIn(1, weight.length, "groups"));
  if (weight.length % groups != 0) a.fail(std::to_string(groups) + " groups of one size", std::to_string(weight.length));
  const Rows x = a.rows(DType::F32, weight.length);
  const Rows out = a.rows(dtype, weight.length, paddedCols(dtype, weight.length));
  a.expectEqual("rows of the output", x.rows, out.rows);
  return recorded(info, a, backend().rmsNorm(weight, groups, eps, x, dtype, out));
}

/// layerNorm(isHalf, weight, bias or -1, eps, x[4], out[4])
Napi::Value BackendObject::layerNorm(const Info& info) {
  Args a = args("layerNorm", info);
  const DType dtype = a.dtypeFlag();
  const Vector& weight = vectorAt(a);
  const Vector* bias = vectorOrNullAt(a);
  if (bias != nullptr) a.expectEqual("a bias of", weight.length, bias->length);
  const float eps = static_cast<float>(a.real());
  const Rows x = a.rows(DType::F32, weight.length);
  const Rows out = a.rows(dtype, weight.length, paddedCols(dtype, weight.length));
  a.expectEqual("rows of the output", x.rows, out.rows);
  return recorded(info, a, backend().layerNorm(weight, bias, eps, x, dtype, out));
}

/// qkNorm(weight, eps, x[4])
Napi::Value BackendObject::qkNorm(const Info& info) {
  Args a = args("qkNorm", info);
  const Vector& weight = vectorAt(a);
  const float eps = static_cast<float>(a.real());
  const int64_t cols = a.peekCols(), headDim = weight.length;
  const Rows x = a.rows(DType::F32, cols);
  if (headDim == 0 || cols % headDim != 0) a.fail("whole heads of " + std::to_string(headDim), std::to_string(cols));
  return recorded(info, a, backend().qkNorm(weight, eps, x, cols));
}

/// headLayerNorm(weight, headDim, eps, x[4])
Napi::Value BackendObject::headLayerNorm(const Info& info) {
  Args a = args("headLayerNorm", info);
  const Vector& weight = vectorAt(a);
  const int64_t headDim = a.integerIn(1, weight.length, "headDim");
  const float eps = static_cast<float>(a.real());
  const Rows x = a.rows(DType::F32, weight.length);
  if (weight.length % headDim != 0) {
    a.fail("whole heads of " + std::to_string(headDim), std::to_string(weight.length));
  }
  return recorded(info, a, backend().headLayerNorm(weight, headDim, eps, x));
}

/// activate(activation, isHalf, x[4], out[4])
Napi::Value BackendObject::activate(const Info& info) {
  Args a = args("activate", info);
  const Activation activation = a.activation();
  const DType dtype = a.dtypeFlag();
  const int64_t cols = a.peekCols();
  const Rows x = a.rows(DType::F32, cols);
  const Rows out = a.rows(dtype, cols, paddedCols(dtype, cols));
  a.expectEqual("rows of the output", x.rows, out.rows);
  return recorded(info, a, backend().activate(activation, x, cols, dtype, out));
}

/// xielu(positive, negative, linear, least, isHalf, x[4], out[4])
Napi::Value BackendObject::xielu(const Info& info) {
  Args a = args("xielu", info);
  const auto factor = [&] { return static_cast<float>(a.real()); };
  const Xielu factors{factor(), factor(), factor(), factor()};
  const DType dtype = a.dtypeFlag();
  const int64_t cols = a.peekCols();
  const Rows x = a.rows(DType::F32, cols);
  const Rows out = a.rows(dtype, cols, paddedCols(dtype, cols));
  a.expectEqual("rows of the output", x.rows, out.rows);
  return recorded(info, a, backend().xielu(factors, x, cols, dtype, out));
}

/// gate(opening, isHalf of x, isHalf, x[4], gate[4], out[4])
Napi::Value BackendObject::gate(const Info& info) {
  Args a = args("gate", info);
  const Gate opening = a.gate();
  const DType inputDType = a.dtypeFlag(), dtype = a.dtypeFlag();
  const int64_t cols = a.peekCols();
  const Rows x = a.rows(inputDType, cols), gate = a.rows(DType::F32, cols);
  const Rows out = a.rows(dtype, cols, paddedCols(dtype, cols));
  a.expectEqual("rows of the gate", x.rows, gate.rows);
  a.expectEqual("rows of the output", x.rows, out.rows);
  return recorded(info, a, backend().gate(opening, inputDType, x, gate, cols, dtype, out));
}

/// cast(isHalf of x, isHalf, x[4], out[4])
Napi::Value BackendObject::cast(const Info& info) {
  Args a = args("cast", info);
  const DType inputDType = a.dtypeFlag(), dtype = a.dtypeFlag();
  const int64_t cols = a.peekCols();
  const Rows x = a.rows(inputDType, cols);
  const Rows out = a.rows(dtype, cols, paddedCols(dtype, cols));
  a.expectEqual("rows of the output", x.rows, out.rows);
  return recorded(info, a, backend().cast(inputDType, x, cols, dtype, out));
}

/// addScaled(factor, x[4], residual[4])
Napi::Value BackendObject::addScaled(const Info& info) {
  Args a = args("addScaled", info);
  const float factor = static_cast<float>(a.real());
  const int64_t cols = a.peekCols();
  const Rows x = a.rows(DType::F32, cols), residual = a.rows(DType::F32, cols);
  a.expectEqual("rows of the residual", x.rows, residual.rows);
  return recorded(info, a, backend().addScaled(factor, x, cols, residual));
}

/// scale(factor, x[4])
Napi::Value BackendObject::scale(const Info& info) {
  Args a = args("scale", info);
  const float factor = static_cast<float>(a.real());
  const int64_t cols = a.peekCols();
  return recorded(info, a, backend().scale(factor, a.rows(DType::F32, cols), cols));
}

/// softcap(cap, x[4])
Napi::Value BackendObject::softcap(const Info& info) {
  Args a = args("softcap", info);
  const float cap = static_cast<float>(a.real());
  if (!(cap > 0.0f)) a.fail("a cap above 0", std::to_string(cap));
  const int64_t cols = a.peekCols();
  return recorded(info, a, backend().softcap(cap, a.rows(DType::F32, cols), cols));
}

/// clip(least, most, x[4])
Napi::Value BackendObject::clip(const Info& info) {
  Args a = args("clip", info);
  const float least = static_cast<float>(a.real()), most = static_cast<float>(a.real());
  if (!(least <= most)) a.fail("a least number up to " + std::to_string(most), std::to_string(least));
  const int64_t cols = a.peekCols();
  return recorded(info, a, backend().clip(least, most, a.rows(DType::F32, cols), cols));
}

/// meanRows(starts, x[4], out[4])
Napi::Value BackendObject::meanRows(const Info& info) {
  Args a = args("meanRows", info);
  std::vector<int32_t> starts = a.int32s(1).copy();
  const int64_t cols = a.peekCols();
  const Rows x = a.rows(DType::F32, cols), out = a.rows(DType::F32, cols);
  a.expectEqual("starts of the output's rows, and their end", out.rows + 1, static_cast<int64_t>(starts.size()));
  a.expectBelow("starts", {starts.data(), static_cast<int64_t>(starts.size())}, x.rows + 1);
  if (std::adjacent_find(starts.begin(), starts.end(), std::greater_equal<>()) != starts.end()) {
    a.fail("starts that rise", "others");
  }
  return recorded(info, a, backend().meanRows(std::move(starts), x, cols, out));
}

/// gatherRows(isHalf, rows, x[4], out[4])
Napi::Value BackendObject::gatherRows(const Info& info) {
  Args a = args("gatherRows", info);
  const DType dtype = a.dtypeFlag();
  const Span<const int32_t> rows = a.int32s(0);
  const int64_t cols = a.peekCols();
  const Rows x = a.rows(dtype, cols);
  const Rows out = a.rows(dtype, cols, paddedCols(dtype, cols));
  a.expectEqual("rows of the output", rows.length, out.rows);
  a.expectBelow("rows", rows, x.rows);
  return recorded(info, a, backend().gatherRows(dtype, rows.copy(), x, cols, out));
}

/// read(isHalf, x[4], Float32Array)
Napi::Value BackendObject::read(const Info& info) {
  Args a = args("read", info);
  const DType dtype = a.dtypeFlag();
  const int64_t cols = a.peekCols();
  const Rows x = a.rows(dtype, cols);
  backend().read(dtype, x, cols, a.keptFloat32s(x.rows * cols).data);
  return info.Env().Undefined();
}

/// readLater(isHalf, x[4], Float32Array): the op fills the array.
Napi::Value BackendObject::readLater(const Info& info) {
  Args a = args("readLater", info);
  const DType dtype = a.dtypeFlag();
  const int64_t cols = a.peekCols();
  const Rows x = a.rows(dtype, cols);
  return recorded(info, a, backend().readLater(dtype, x, cols, a.keptFloat32s(x.rows * cols).data));
}

/// write(isHalf, Float32Array, out[4])
Napi::Value BackendObject::write(const Info& info) {
  Args a = args("write", info);
  const DType dtype = a.dtypeFlag();
  const Span<const float> values = a.float32s(0);
  const int64_t cols = a.peekCols();
  const Rows out = a.rows(dtype, cols, paddedCols(dtype, cols));
  a.expectEqual("values", out.rows * cols, values.length);
  backend().write(dtype, values.data, cols, out);
  return info.Env().Undefined();
}

}  // namespace svc
