// linear, addLinear and gateUp.

#include "binding/backend_object.h"

namespace svc {

/// linear(weight, x[4], out[4], add)
Napi::Value BackendObject::linear(const Info& info) {
  Args a = args("linear", info);
  const Weight& weight = weightAt(a, false);
  const DType dtype = inputDType(weight.format);
  const Rows x = a.rows(dtype, weight.k, paddedCols(dtype, weight.k));
  const Rows out = a.rows(DType::F32, weight.n);
  a.expectEqual("rows of the output", x.rows, out.rows);
  return recorded(info, a, backend().linear(weight, x, out, a.boolean()));
}

/// gateUp(activation, weight, x[4], out[4]): rows of the output are written in whole vectors.
Napi::Value BackendObject::gateUp(const Info& info) {
  Args a = args("gateUp", info);
  const Activation activation = a.activation();
  const Weight& weight = weightAt(a, true);
  const DType dtype = inputDType(weight.format);
  const int64_t written = roundUp(weight.n, dtype == DType::F32 ? kF32Vector : kBf16Depth);
  const Rows x = a.rows(dtype, weight.k, paddedCols(dtype, weight.k));
  const Rows out = a.rows(dtype, weight.n, written);
  a.expectEqual("rows of the output", x.rows, out.rows);
  return recorded(info, a, backend().gateUp(weight, activation, x, out));
}

}  // namespace svc
