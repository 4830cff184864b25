// Helpers of the transfer objects: integers in a range, arrays of a type, and C++ exceptions as JavaScript errors.
#pragma once

#include <napi.h>

#include <stdexcept>
#include <string>
#include <type_traits>

namespace svc {

inline int64_t integerArgument(const Napi::CallbackInfo& info, size_t index, int64_t least, int64_t most,
                               const char* what) {
  int64_t value = 0;
  const bool isNumber = napi_get_value_int64(info.Env(), info[index], &value) == napi_ok;
  if (!isNumber || value < least || value > most) {
    throw Napi::RangeError::New(info.Env(), std::string(what) + " must be from " + std::to_string(least) + " to " +
                                                std::to_string(most) + ", got " + info[index].ToString().Utf8Value());
  }
  return value;
}

struct ArrayKind {
  napi_typedarray_type type;
  const char* name;
};

template <class T>
constexpr ArrayKind arrayKind() {
  if constexpr (std::is_same_v<T, int32_t>) return {napi_int32_array, "an Int32Array"};
  if constexpr (std::is_same_v<T, uint8_t>) return {napi_uint8_array, "a Uint8Array"};
  if constexpr (std::is_same_v<T, double>) return {napi_float64_array, "a Float64Array"};
}

/// The value as what it must be: N-API takes any array for one of any type, and would read its memory as of that type.
template <class T>
Napi::TypedArrayOf<T> arrayOf(const Napi::Value& value, const char* what) {
  constexpr ArrayKind kKind = arrayKind<T>();
  const bool isOfType = value.IsTypedArray() && value.As<Napi::TypedArray>().TypedArrayType() == kKind.type;
  if (!isOfType) throw Napi::TypeError::New(value.Env(), std::string(what) + " must be in " + kKind.name);
  return value.As<Napi::TypedArrayOf<T>>();
}

template <class Body>
auto checked(const Napi::CallbackInfo& info, Body body) {
  try {
    return body();
  } catch (const Napi::Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Napi::Error::New(info.Env(), error.what());
  }
}

}  // namespace svc
