// What this machine can do at most when it moves bytes: figures that the transfer benchmark divides by.
#pragma once

#include <napi.h>

namespace svc {

/// copyBandwidth(bytes): bytes a second of one memcpy by one thread between memory that is already there.
Napi::Value copyBandwidth(const Napi::CallbackInfo& info);

/// socketBandwidth(bytes, memoryBytes, sockets): bytes a second over TCP on the loopback, a thread for each end of a
/// socket, in large writes out of, and large reads into, `memoryBytes` that each socket walks through again and again.
Napi::Value socketBandwidth(const Napi::CallbackInfo& info);

}  // namespace svc
