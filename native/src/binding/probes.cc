// Figures that the benchmarks divide by.

#include "binding/backend_object.h"

namespace svc {

/// readBandwidth(bytes, repeats): best bytes a second that the device reads from its memory.
Napi::Value BackendObject::readBandwidth(const Info& info) {
  Args a = args("readBandwidth", info);
  const auto bytes = static_cast<size_t>(a.integerIn(1 << 20, int64_t{1} << 36, "bytes"));
  return Napi::Number::New(info.Env(), backend().readBandwidth(bytes, a.integerIn(1, 1000, "repeats")));
}

/// matrixPeak(repeats, isInt8): best operations a second of the widest multiply-add of bf16 (or f32), or of int8.
Napi::Value BackendObject::matrixPeak(const Info& info) {
  Args a = args("matrixPeak", info);
  const int64_t repeats = a.integerIn(1, 1000, "repeats");
  const WeightFormat format = a.boolean() ? WeightFormat::Int8 : WeightFormat::Half;
  return Napi::Number::New(info.Env(), backend().matrixPeak(repeats, format));
}

/// forkJoinSeconds(repeats): mean time of an op that does nothing on all threads.
Napi::Value BackendObject::forkJoinSeconds(const Info& info) {
  Args a = args("forkJoinSeconds", info);
  return Napi::Number::New(info.Env(), backend().forkJoinSeconds(a.integerIn(1, 1 << 24, "repeats")));
}

}  // namespace svc
