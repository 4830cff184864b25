// Ops on single rows: embedding, normalisation, rotation, copies between tensors and JavaScript.

#include <algorithm>
#include <cstring>

#include "binding/backend.h"
#include "binding/token_ids.h"

namespace svc {
namespace {

/// Numbers that one task should touch at least: less is done before another thread has woken.
constexpr int64_t kTaskNumbers = 16384;

/// Calls body(row) for each row, in tasks of enough numbers.
template <class Body>
void eachRow(ThreadPool& pool, int64_t rows, int64_t cols, const Body& body) {
  const int64_t perTask = std::max<int64_t>(1, kTaskNumbers / std::max<int64_t>(cols, 1));
  const int tasks = static_cast<int>((rows + perTask - 1) / perTask);
  pool.run(tasks, [&](int task, int) {
    const int64_t end = std::min(rows, (task + 1) * perTask);
    for (int64_t row = task * perTask; row < end; ++row) body(row);
  });
}

char* rowAt(const cpu::Rows& tensor, int64_t row, cpu::DType dtype) {
  return tensor.data + row * tensor.stride * static_cast<int64_t>(cpu::elementBytes(dtype));
}

float* floatsAt(const cpu::Rows& tensor, int64_t row) {
  return reinterpret_cast<float*>(rowAt(tensor, row, cpu::DType::F32));
}

int64_t paddedCols(cpu::DType dtype, int64_t cols) {
  return dtype == cpu::DType::Bf16 ? cpu::roundUp(cols, cpu::kBf16Depth) : cols;
}

cpu::DType dtypeFlag(Args& args) { return args.boolean() ? cpu::DType::Bf16 : cpu::DType::F32; }

}  // namespace

/// embedding(weight, ids, sampled, out[4])
Napi::Value Backend::embedding(const Info& info) {
  Args a = args("embedding", info);
  const cpu::PackedWeight& table = weightAt(a, false);
  TokenIds ids(a, table.n);
  const cpu::Rows out = a.rows(cpu::DType::F32, table.k);
  a.expectEqual("rows of the output", ids.size(), out.rows);
  return record(info, a, [&pool = state().pool, &table, ids = std::move(ids), out] {
    const std::vector<int32_t> tokens = ids.resolve();
    eachRow(pool, out.rows, table.k, [&](int64_t row) { cpu::unpackRow(table, tokens[row], floatsAt(out, row)); });
  });
}

/// rmsNorm(isBf16, weight, eps, x[4], out[4])
Napi::Value Backend::rmsNorm(const Info& info) {
  Args a = args("rmsNorm", info);
  const cpu::DType dtype = dtypeFlag(a);
  const std::vector<float>& weight = vectorAt(a);
  const float eps = static_cast<float>(a.real());
  const int64_t cols = static_cast<int64_t>(weight.size());
  const cpu::Rows x = a.rows(cpu::DType::F32, cols);
  const int64_t padded = paddedCols(dtype, cols);
  const cpu::Rows out = a.rows(dtype, cols, padded);
  a.expectEqual("rows of the output", x.rows, out.rows);
  const auto kernel = state().kernels.rmsNorm[static_cast<int>(dtype)];
  return record(info, a, [&pool = state().pool, &weight, kernel, x, out, dtype, cols, padded, eps] {
    eachRow(pool, x.rows, cols, [&](int64_t row) {
      kernel(floatsAt(x, row), weight.data(), static_cast<int>(cols), eps, rowAt(out, row, dtype),
             static_cast<int>(padded));
    });
  });
}

/// rmsNormHeads(weight, eps, x[4])
Napi::Value Backend::rmsNormHeads(const Info& info) {
  Args a = args("rmsNormHeads", info);
  const std::vector<float>& weight = vectorAt(a);
  const float eps = static_cast<float>(a.real());
  const int64_t cols = a.peekCols(), headDim = static_cast<int64_t>(weight.size());
  const cpu::Rows x = a.rows(cpu::DType::F32, cols);
  if (headDim == 0 || cols % headDim != 0) a.fail("whole heads of " + std::to_string(headDim), std::to_string(cols));
  const auto kernel = state().kernels.rmsNorm[static_cast<int>(cpu::DType::F32)];
  return record(info, a, [&pool = state().pool, &weight, kernel, x, cols, headDim, eps] {
    eachRow(pool, x.rows, cols, [&](int64_t row) {
      for (float* head = floatsAt(x, row); head < floatsAt(x, row) + cols; head += headDim) {
        kernel(head, weight.data(), static_cast<int>(headDim), eps, head, static_cast<int>(headDim));
      }
    });
  });
}

/// rope(table, headDim, rotaryDim, positions, x[4])
Napi::Value Backend::rope(const Info& info) {
  Args a = args("rope", info);
  const std::vector<float>& table = vectorAt(a);
  const int64_t headDim = a.integerIn(2, 1 << 16, "headDim");
  const int64_t rotaryDim = a.integerIn(2, headDim, "rotaryDim");
  const Span<const int32_t> positions = a.int32s(0);
  const int64_t cols = a.peekCols();
  const cpu::Rows x = a.rows(cpu::DType::F32, cols);
  if (headDim % 2 != 0 || cols % headDim != 0) a.fail("whole heads of " + std::to_string(headDim), std::to_string(cols));
  if (rotaryDim % 2 != 0) a.fail("an even rotaryDim", std::to_string(rotaryDim));
  a.expectEqual("positions", x.rows, positions.length);
  a.expectBelow("positions", positions, static_cast<int64_t>(table.size()) / rotaryDim);
  const auto kernel = state().kernels.rope;
  return record(info, a, [&pool = state().pool, &table, kernel, positions = positions.copy(), x, cols, headDim, rotaryDim] {
    eachRow(pool, x.rows, cols, [&](int64_t row) {
      const float* angles = table.data() + positions[row] * rotaryDim;
      for (float* head = floatsAt(x, row); head < floatsAt(x, row) + cols; head += headDim) {
        kernel(head, angles, static_cast<int>(rotaryDim));
      }
    });
  });
}

/// gatherRows(isBf16, rows, x[4], out[4])
Napi::Value Backend::gatherRows(const Info& info) {
  Args a = args("gatherRows", info);
  const cpu::DType dtype = dtypeFlag(a);
  const Span<const int32_t> rows = a.int32s(0);
  const int64_t cols = a.peekCols();
  const cpu::Rows x = a.rows(dtype, cols);
  const int64_t padded = paddedCols(dtype, cols);
  const cpu::Rows out = a.rows(dtype, cols, padded);
  a.expectEqual("rows of the output", rows.length, out.rows);
  a.expectBelow("rows", rows, x.rows);
  const size_t element = cpu::elementBytes(dtype);
  return record(info, a, [rows = rows.copy(), x, out, dtype, element, cols, padded] {
    for (int64_t row = 0; row < out.rows; ++row) {
      char* to = rowAt(out, row, dtype);
      std::memcpy(to, rowAt(x, rows[row], dtype), cols * element);
      std::memset(to + cols * element, 0, (padded - cols) * element);
    }
  });
}

/// read(isBf16, x[4], Float32Array)
Napi::Value Backend::read(const Info& info) {
  Args a = args("read", info);
  const cpu::DType dtype = dtypeFlag(a);
  const int64_t cols = a.peekCols();
  const cpu::Rows x = a.rows(dtype, cols);
  const Span<float> out = a.keptFloat32s(x.rows * cols);
  const auto widen = state().kernels.widen[static_cast<int>(dtype)];
  return runNow(info, [&] {
    for (int64_t row = 0; row < x.rows; ++row) widen(rowAt(x, row, dtype), out.data + row * cols, cols);
  });
}

/// write(isBf16, Float32Array, out[4])
Napi::Value Backend::write(const Info& info) {
  Args a = args("write", info);
  const cpu::DType dtype = dtypeFlag(a);
  const Span<const float> values = a.float32s(0);
  const int64_t cols = a.peekCols();
  const int64_t padded = paddedCols(dtype, cols);
  const cpu::Rows out = a.rows(dtype, cols, padded);
  a.expectEqual("values", out.rows * cols, values.length);
  const size_t element = cpu::elementBytes(dtype);
  return runNow(info, [&] {
    for (int64_t row = 0; row < out.rows; ++row) {
      char* to = rowAt(out, row, dtype);
      const float* from = values.data + row * cols;
      if (dtype == cpu::DType::F32) std::memcpy(to, from, cols * element);
      else state().kernels.narrow(from, reinterpret_cast<uint16_t*>(to), cols);
      std::memset(to + cols * element, 0, (padded - cols) * element);
    }
  });
}

}  // namespace svc
