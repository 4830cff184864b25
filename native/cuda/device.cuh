// What kernels use beyond C++: halves, what threads tell each other, copies to shared memory and matrix instructions.
// Written out in PTX, so that kernels need no header of a toolkit; where no CUDA compiler reads this, `native/test/simt/` emulates it.
#pragma once

#include "launch.h"
#include "params.h"

#ifdef __CUDACC__

#ifdef SVC_TRACE
#include "trace.cuh"
#define SVC_TRACED(name) const KernelTrace trace(nameHash(#name))
#else
#define SVC_TRACED(name)
#endif

/// `begin` comes first; `where` says where arguments are read.
#define SVC_GPU_KERNEL(name, Params, threads, where, begin)                             \
  __device__ __forceinline__ void name##Body(const Params& p);                          \
  extern "C" __global__ void __launch_bounds__(threads, 1) name(const where Params p) { \
    SVC_TRACED(name);                                                                   \
    begin;                                                                              \
    name##Body(p);                                                                      \
  }                                                                                     \
  __device__ __forceinline__ void name##Body(const Params& p)
/// A kernel that touches nothing before the one before it has run.
#define SVC_KERNEL(name, Params, threads) SVC_GPU_KERNEL(name, Params, threads, , awaitBefore())
/// One that calls `awaitBefore` itself, since it begins with what no kernel writes: weights, or what the host has sent for the step.
#define SVC_EARLY_KERNEL(name, Params, threads) SVC_GPU_KERNEL(name, Params, threads, , )
/// The same of arguments with tensor maps, which are read where the launch has left them.
#define SVC_TENSOR_KERNEL(name, Params, threads) SVC_GPU_KERNEL(name, Params, threads, __grid_constant__, )

// Numbers of 16 bits, halves: all kernels of a file have one format of them.
#ifdef SVC_F16
#define SVC_HALF "f16"
#else
#define SVC_HALF "bf16"
#endif

namespace svc::cuda {

/// From Hopper on a kernel of a graph may begin while the one before it runs: it waits here until that one, and so all before it, have run. The next one may
/// begin from then on. Earlier, its blocks would take the places of those that work, and what they load ahead would delay what is needed now.
__device__ __forceinline__ void awaitBefore() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
#ifdef SVC_TRACE
  noteWaited();
#endif
}

__device__ __forceinline__ float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ double fma(double a, double b, double c) { return __fma_rn(a, b, c); }
__device__ __forceinline__ float squareRoot(float x) { return __fsqrt_rn(x); }
/// The number where the other one is NaN; of two zeros, either.
__device__ __forceinline__ float larger(float a, float b) { return fmaxf(a, b); }

template <class To, class From>
__device__ __forceinline__ To bitsAs(From from) {
  static_assert(sizeof(To) == sizeof(From));
  union {
    From from;
    To to;
  } bits = {from};
  return bits.to;
}

__device__ __forceinline__ uint16_t floatToHalf(float value) {
  uint16_t bits;
  asm("cvt.rn." SVC_HALF ".f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

__device__ __forceinline__ float halfToFloat(uint16_t bits) {
#ifdef SVC_F16
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#else
  return bitsAs<float>(static_cast<uint32_t>(bits) << 16);
#endif
}

__device__ __forceinline__ uint32_t packHalves(float low, float high) {
  uint32_t bits;
  asm("cvt.rn." SVC_HALF "x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

extern __shared__ __align__(1024) char svcShared[];
__device__ __forceinline__ char* dynamicShared() { return svcShared; }

__device__ __forceinline__ void syncWarp() { __syncwarp(); }

/// The value of lane `lane ^ kMask`.
template <int kMask, class T>
__device__ __forceinline__ T shuffleXor(T value) {
  return __shfl_xor_sync(~0u, value, kMask);
}

__device__ __forceinline__ uint32_t sharedAddress(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

/// Copies 16 bytes, of which those past the first `bytesRead` are zero.
__device__ __forceinline__ void copyAsync16(void* shared, const void* global, int bytesRead) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(sharedAddress(shared)), "l"(global), "r"(bytesRead)
               : "memory");
}
/// The same of 4 or 8 bytes.
template <int kBytes>
__device__ __forceinline__ void copyAsync(void* shared, const void* global, int bytesRead) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(sharedAddress(shared)), "l"(global), "n"(kBytes),
               "r"(bytesRead)
               : "memory");
}
__device__ __forceinline__ void commitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits for this thread's groups of copies, all but the youngest.
template <int kGroupsLeft>
__device__ __forceinline__ void waitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroupsLeft) : "memory");
}

/// Four matrices of 8 by 8 halves: lanes 8m to 8m + 7 name the rows of matrix m, and out[m] is the lane's pair of it.
template <bool kTransposed>
__device__ __forceinline__ void loadMatrices(uint32_t (&out)[4], const void* row) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(sharedAddress(row))
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(sharedAddress(row))
                 : "memory");
  }
}

/// c [16, 8] += a [16, 16] * b [16, 8], a warp's fragments of halves and f32.
__device__ __forceinline__ void multiplyAdd(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." SVC_HALF "." SVC_HALF ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/// The same of signed bytes, of which each number above is two: c [16, 8] += a [16, 32] * b [32, 8].
__device__ __forceinline__ void multiplyAdd(int32_t (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace svc::cuda

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define SVC_HAS_WARPGROUPS
#include "warpgroup.cuh"
#endif

#else
#include "../test/simt/device.h"
#endif

namespace svc::cuda {

constexpr int kWarp = 32;
#ifdef SVC_HAS_WARPGROUPS
constexpr bool kHasWarpgroups = true;
#else
constexpr bool kHasWarpgroups = false;
#endif
#ifndef SVC_HAS_WARPGROUPS
__device__ __forceinline__ void showToMatrixUnit() {}
#endif

constexpr float kInfinity = __builtin_bit_cast(float, 0x7f800000u);

__device__ __forceinline__ int thread() { return static_cast<int>(threadIdx.x); }
__device__ __forceinline__ int threads() { return static_cast<int>(blockDim.x); }
__device__ __forceinline__ int lane() { return thread() % kWarp; }
__device__ __forceinline__ int warp() { return thread() / kWarp; }

__device__ __forceinline__ void storeAs(Format format, void* row, int64_t column, float value) {
  if (format == Format::F32) static_cast<float*>(row)[column] = value;
  else static_cast<uint16_t*>(row)[column] = floatToHalf(value);
}
/// Row `row` of a matrix whose numbers have this format.
__device__ __forceinline__ void* rowOf(Format format, void* data, int64_t stride, int64_t row) {
  return static_cast<char*>(data) + row * stride * (format == Format::F32 ? 4 : 2);
}
/// A number of such a matrix.
__device__ __forceinline__ float numberOf(Format format, const void* data, int64_t stride, int64_t row, int64_t column) {
  const int64_t at = row * stride + column;
  return format == Format::F32 ? static_cast<const float*>(data)[at] : halfToFloat(static_cast<const uint16_t*>(data)[at]);
}

struct Add {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Max {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

/// All values of a warp by one tree, in every lane. `combine(a, b)` must equal combine(b, a).
template <class T, class Combine>
__device__ __forceinline__ T reduceWarp(T value, Combine combine) {
  value = combine(value, shuffleXor<16>(value));
  value = combine(value, shuffleXor<8>(value));
  value = combine(value, shuffleXor<4>(value));
  value = combine(value, shuffleXor<2>(value));
  return combine(value, shuffleXor<1>(value));
}

/// All values of a block, in every thread: each warp's, then those of the warps in order.
template <class T, class Combine>
__device__ __forceinline__ T reduceBlock(T value, Combine combine) {
  __shared__ T ofWarps[kWarp];
  value = reduceWarp(value, combine);
  if (threads() == kWarp) return value;
  __syncthreads();  // the last values have been read
  if (lane() == 0) ofWarps[warp()] = value;
  __syncthreads();
  T all = ofWarps[0];
  for (int i = 1; i < threads() / kWarp; ++i) all = combine(all, ofWarps[i]);
  return all;
}

}  // namespace svc::cuda
