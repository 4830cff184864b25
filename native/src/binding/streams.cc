// Ops on streams side by side, and on what closes most gates of a row.

#include "binding/backend_object.h"

namespace svc {

/// scaleColumns(isHalf, factors, x[4], out[4])
Napi::Value BackendObject::scaleColumns(const Info& info) {
  Args a = args("scaleColumns", info);
  const DType dtype = a.dtypeFlag();
  const Vector& factors = vectorAt(a);
  const Rows x = a.rows(DType::F32, factors.length);
  const Rows out = a.rows(dtype, factors.length, paddedCols(dtype, factors.length));
  a.expectEqual("rows of the output", x.rows, out.rows);
  return recorded(info, a, backend().scaleColumns(factors, x, dtype, out));
}

/// sparsify(deviations, x[4])
Napi::Value BackendObject::sparsify(const Info& info) {
  Args a = args("sparsify", info);
  const float deviations = static_cast<float>(a.real());
  const int64_t cols = a.peekCols();
  return recorded(info, a, backend().sparsify(deviations, a.rows(DType::F32, cols), cols));
}

/// joinStreams(least, x[4], others[4], out[4])
Napi::Value BackendObject::joinStreams(const Info& info) {
  Args a = args("joinStreams", info);
  const float least = static_cast<float>(a.real());
  if (!(least > 0.0f)) a.fail("a least mean above 0", std::to_string(least));
  const int64_t width = a.peekCols();
  const Rows x = a.rows(DType::F32, width);
  const int64_t others = a.peekCols();
  const Rows streams = a.rows(DType::F32, others), out = a.rows(DType::F32, width + others);
  if (width == 0 || others == 0 || others % width != 0) a.fail("others in streams of " + std::to_string(width), std::to_string(others));
  a.expectEqual("rows of the others", x.rows, streams.rows);
  a.expectEqual("rows of the output", x.rows, out.rows);
  return recorded(info, a, backend().joinStreams(least, width, static_cast<int>(others / width), x, streams, out));
}

/// addMixed(coefficients, offset, width, numbers[4], x[4], residual[4])
Napi::Value BackendObject::addMixed(const Info& info) {
  Args a = args("addMixed", info);
  const Vector& coefficients = vectorAt(a);
  const float offset = static_cast<float>(a.real());
  const int64_t width = a.integerIn(1, INT32_MAX, "a width"), count = a.peekCols();
  const Rows numbers = a.rows(DType::F32, count);
  const auto streams = [&](Rows& rows) {
    const int64_t cols = a.peekCols();
    rows = a.rows(DType::F32, cols);
    if (cols % width != 0 || cols == 0 || cols > kMostStreams * width) {
      a.fail("1 to " + std::to_string(kMostStreams) + " streams of " + std::to_string(width), std::to_string(cols));
    }
    a.expectEqual("rows of each", numbers.rows, rows.rows);
    return static_cast<int>(cols / width);
  };
  Rows x{}, residual{};
  const int inputs = streams(x), outputs = streams(residual);
  a.expectEqual("coefficients", outputs * inputs * count, coefficients.length);
  const StreamMix mix{&coefficients, offset, width, inputs, outputs, static_cast<int>(count)};
  return recorded(info, a, backend().addMixed(mix, numbers, x, residual));
}

}  // namespace svc
