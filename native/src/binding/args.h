// Reads the arguments of a native call in order and checks each before memory is touched.
#pragma once

#include <napi.h>

#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "backend/backend.h"

namespace svc {

/// A defect of the caller: tensors, indices or lengths that do not fit together.
class ArgumentError : public std::runtime_error {
 public:
  ArgumentError(const std::string& op, const std::string& expected, const std::string& got)
      : std::runtime_error(op + ": expected " + expected + ", got " + got), op(op), expected(expected), got(got) {}

  const std::string op, expected, got;
};

template <class T>
struct Span {
  T* data;
  int64_t length;

  /// A copy for ops that run later: JavaScript may change or free its array before.
  std::vector<std::remove_const_t<T>> copy() const { return {data, data + length}; }
};

class Args {
 public:
  Args(const char* op, const Napi::CallbackInfo& info, const Backend& backend)
      : op_(op), info_(info), arena_(backend.arena()), half_(backend.half()) {}

  int64_t integer() { return number<int64_t>(napi_get_value_int64); }
  double real() { return number<double>(napi_get_value_double); }
  bool boolean() { return info_[next_++].ToBoolean(); }
  int64_t integerIn(int64_t least, int64_t most, const char* what) {
    const int64_t value = integer();
    if (value < least || value > most) {
      fail(std::string(what) + " from " + std::to_string(least) + " to " + std::to_string(most), std::to_string(value));
    }
    return value;
  }

  /// Four numbers: byte offset in the arena, rows, columns, stride in elements. A row may be read or written up to
  /// `paddedCols` of its columns, so that many must be inside the arena and inside the stride.
  Rows rows(DType dtype, int64_t cols, int64_t paddedCols);
  Rows rows(DType dtype, int64_t cols) { return rows(dtype, cols, cols); }
  /// Two arrays: ids, and the result of a `sample` op, which is kept.
  TokenIds tokenIds(int64_t vocab, int64_t first = 0);
  /// Whether numbers are halves, the other format being f32.
  DType dtypeFlag() { return boolean() ? half_ : DType::F32; }
  /// The format of the activations that a weight is multiplied with.
  DType inputDType(WeightFormat format) const { return svc::inputDType(format, half_); }
  DType half() const { return half_; }
  /// silu, gelu, gelu_tanh, relu or relu2.
  Activation activation();
  /// The same or clamped_swiglu.
  GatedActivation gatedActivation();
  /// silu, sigmoid or identity.
  Gate gate();
  /// The number that comes next.
  int64_t peekInteger() const { return info_[next_].ToNumber().Int64Value(); }
  /// Columns of the tensor whose four numbers come next.
  int64_t peekCols() const { return info_[next_ + 2].As<Napi::Number>().Int64Value(); }

  Span<const int32_t> int32s(int64_t least) { return array<const int32_t>(napi_int32_array, least); }
  Span<const uint32_t> uint32s(int64_t least) { return array<const uint32_t>(napi_uint32_array, least); }
  Span<const float> float32s(int64_t least) { return array<const float>(napi_float32_array, least); }
  Span<const double> float64s(int64_t least) { return array<const double>(napi_float64_array, least); }

  /// Arrays that the op uses when it runs: they are kept until then.
  Span<int32_t> keptInt32s(int64_t least) { return keep(array<int32_t>(napi_int32_array, least)); }
  Span<float> keptFloat32s(int64_t least) { return keep(array<float>(napi_float32_array, least)); }
  const std::vector<Napi::Object>& kept() const { return kept_; }

  [[noreturn]] void fail(const std::string& expected, const std::string& got) const {
    throw ArgumentError(op_, expected, got);
  }
  /// Throws unless `got` equals `expected`; `what` names the quantity.
  void expectEqual(const std::string& what, int64_t expected, int64_t got) const {
    if (got != expected) fail(what + " " + std::to_string(expected), std::to_string(got));
  }
  /// Throws unless all values are in [begin, end).
  void expectWithin(const std::string& what, Span<const int32_t> values, int64_t begin, int64_t end) const {
    for (int64_t i = 0; i < values.length; ++i) {
      if (values.data[i] < begin || values.data[i] >= end) {
        fail(what + " from " + std::to_string(begin) + " to " + std::to_string(end - 1),
             std::to_string(values.data[i]) + " in row " + std::to_string(i));
      }
    }
  }
  void expectBelow(const std::string& what, Span<const int32_t> values, int64_t end) const {
    expectWithin(what, values, 0, end);
  }

 private:
  template <class T>
  T number(napi_status (*read)(napi_env, napi_value, T*)) {
    T value{};
    const size_t index = next_++;
    if (read(info_.Env(), info_[index], &value) != napi_ok) fail("a number", "argument " + std::to_string(index));
    return value;
  }

  template <class T>
  Span<T> array(napi_typedarray_type wanted, int64_t least) {
    napi_typedarray_type type;
    size_t length = 0;
    void* data = nullptr;
    const size_t index = next_++;
    const napi_status status =
        napi_get_typedarray_info(info_.Env(), info_[index], &type, &length, &data, nullptr, nullptr);
    if (status != napi_ok || type != wanted) fail("a typed array", "argument " + std::to_string(index));
    if (static_cast<int64_t>(length) < least) {
      fail("an array of at least " + std::to_string(least), std::to_string(length));
    }
    return {static_cast<T*>(data), static_cast<int64_t>(length)};
  }

  /// Remembers the array that was just read.
  template <class T>
  Span<T> keep(Span<T> span) {
    kept_.push_back(info_[next_ - 1].As<Napi::Object>());
    return span;
  }

  const char* op_;
  const Napi::CallbackInfo& info_;
  ArenaMemory arena_;
  DType half_;
  size_t next_ = 0;
  std::vector<Napi::Object> kept_;
};

}  // namespace svc
