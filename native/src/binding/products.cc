// linear, addLinear and siluGateUp.

#include "binding/backend.h"

namespace svc {
namespace {

/// Columns of a row that kernels read or write: whole steps of a matrix tile, or whole vectors.
int64_t paddedCols(cpu::DType dtype, int64_t cols) {
  return cpu::roundUp(cols, dtype == cpu::DType::F32 ? cpu::kLanes : cpu::kBf16Depth);
}

int64_t readCols(const cpu::PackedWeight& weight) {
  return weight.dtype == cpu::DType::F32 ? weight.k : paddedCols(weight.dtype, weight.k);
}

}  // namespace

/// linear(weight, x[4], out[4], add)
Napi::Value Backend::linear(const Info& info) {
  Args a = args("linear", info);
  const cpu::PackedWeight& weight = weightAt(a, false);
  const cpu::Rows x = a.rows(weight.dtype, weight.k, readCols(weight));
  const cpu::Rows out = a.rows(cpu::DType::F32, weight.n);
  a.expectEqual("rows of the output", x.rows, out.rows);
  const bool add = a.boolean();
  return record(info, a, [&s = state(), &weight, x, out, add] { cpu::runLinear(s.pool, s.kernels, weight, x, out, add); });
}

/// siluGateUp(weight, x[4], out[4])
Napi::Value Backend::siluGateUp(const Info& info) {
  Args a = args("siluGateUp", info);
  const cpu::PackedWeight& weight = weightAt(a, true);
  const cpu::Rows x = a.rows(weight.dtype, weight.k, readCols(weight));
  const cpu::Rows out = a.rows(weight.dtype, weight.n, paddedCols(weight.dtype, weight.n));
  a.expectEqual("rows of the output", x.rows, out.rows);
  return record(info, a, [&s = state(), &weight, x, out] { cpu::runSiluGateUp(s.pool, s.kernels, weight, x, out); });
}

}  // namespace svc
