// linear, addLinear and gatedLinear.

#include "binding/backend.h"

namespace svc {
namespace {

/// Columns of x that kernels read: bf16 rows are padded to whole steps of a matrix tile.
int64_t readCols(const cpu::PackedWeight& weight) {
  return weight.dtype == cpu::DType::F32 ? weight.k : cpu::roundUp(weight.k, cpu::kBf16Depth);
}

}  // namespace

/// linear(weight, x[4], out[4], add)
Napi::Value Backend::linear(const Info& info) {
  Args a = args("linear", info);
  const cpu::PackedWeight& weight = weightAt(a, false);
  const cpu::Rows x = a.rows(weight.dtype, weight.k, readCols(weight));
  const cpu::Rows out = a.rows(cpu::DType::F32, weight.n);
  a.expectEqual("rows of the output", x.rows, out.rows);
  cpu::runLinear(state().pool, state().kernels, weight, x, out, a.boolean());
  return info.Env().Undefined();
}

/// gatedLinear(weight, x[4], out[4])
Napi::Value Backend::gatedLinear(const Info& info) {
  Args a = args("gatedLinear", info);
  const cpu::PackedWeight& weight = weightAt(a, true);
  const cpu::Rows x = a.rows(weight.dtype, weight.k, readCols(weight));
  const cpu::Rows out = a.rows(weight.dtype, weight.n, cpu::roundUp(weight.n, cpu::kLanes));
  a.expectEqual("rows of the output", x.rows, out.rows);
  cpu::runGated(state().pool, state().kernels, weight, x, out);
  return info.Env().Undefined();
}

}  // namespace svc
