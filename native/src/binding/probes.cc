// Figures that the benchmarks divide by.

#include "binding/backend_object.h"

namespace svc {

/// readBandwidth(bytes, repeats): best bytes a second that the device reads from its memory.
Napi::Value BackendObject::readBandwidth(const Info& info) {
  Args a = args("readBandwidth", info);
  const auto bytes = static_cast<size_t>(a.integerIn(1 << 20, int64_t{1} << 36, "bytes"));
  return Napi::Number::New(info.Env(), backend().readBandwidth(bytes, a.integerIn(1, 1000, "repeats")));
}

/// matrixPeak(repeats): best floating-point operations a second of the widest bf16 (or f32) multiply-add.
Napi::Value BackendObject::matrixPeak(const Info& info) {
  Args a = args("matrixPeak", info);
  return Napi::Number::New(info.Env(), backend().matrixPeak(a.integerIn(1, 1000, "repeats")));
}

/// forkJoinSeconds(repeats): mean time of an op that does nothing on all threads.
Napi::Value BackendObject::forkJoinSeconds(const Info& info) {
  Args a = args("forkJoinSeconds", info);
  return Napi::Number::New(info.Env(), backend().forkJoinSeconds(a.integerIn(1, 1 << 24, "repeats")));
}

}  // namespace svc
