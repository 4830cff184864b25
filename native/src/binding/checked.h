// Helpers of the transfer objects: integers in a range, and C++ exceptions as JavaScript errors.
#pragma once

#include <napi.h>

#include <stdexcept>
#include <string>

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
