// How fast this machine can move bytes at most. The transfer benchmark divides by these figures.
#pragma once

#include <napi.h>

namespace svc {

/// copyBandwidth(bytes): bytes a second of one memcpy by one thread, all pages being in memory already.
Napi::Value copyBandwidth(const Napi::CallbackInfo& info);

/// socketBandwidth(bytes, memoryBytes, sockets): bytes a second over TCP on the loopback, a thread for each end of a
/// socket, in large writes out of, and large reads into, `memoryBytes` that each socket walks through again and again.
Napi::Value socketBandwidth(const Napi::CallbackInfo& info);

}  // namespace svc
