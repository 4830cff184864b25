// The GPU of this machine, as JavaScript sees it.
#pragma once

#include <napi.h>

#include <memory>

#include "backend/backend.h"

namespace svc {

/// new CudaBackend(driver, kernels, GPU, usesGraphs, schedulesDecode, schedulesPrefill, { group, rank, nccl }): the first two and nccl are files; the
/// last is undefined where it is alone
std::unique_ptr<Backend> makeCudaBackend(const Napi::CallbackInfo& info);

/// cudaDevice(driver, GPU): { count, name, computeCapability, driverVersion, freeBytes, totalBytes } as they are now, or { missing }, a text that says why there is
/// none to compute on, and what to do.
Napi::Value cudaDevice(const Napi::CallbackInfo& info);

/// nvrtc(library): { version } of the compiler of kernels, or { missing }, why it does not open.
Napi::Value nvrtc(const Napi::CallbackInfo& info);

/// compileCuda(library, source, headers, options): machine code, a Buffer. headers are [name, text]. Throws what the compiler says.
Napi::Value compileCuda(const Napi::CallbackInfo& info);

}  // namespace svc
