// Attention, compiled once for each instruction set: the Makefile gives SVC_ISA, its name, and SVC_SIMD, its vectors.

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <utility>

#include "cpu/dispatch.h"

namespace svc::cpu::SVC_ISA {
namespace {

#include SVC_SIMD
#include "cpu/kernels_generic/exp.h"
#include "cpu/kernels_generic/tile.h"
#include "cpu/kernels_generic/matmul.h"
#include "cpu/kernels_generic/kv_formats.h"
#include "cpu/kernels_generic/attention.h"

/// Enough rows to read a tile of the cache from the second-level cache once for many of them.
constexpr int kTaskRows = 72;

}  // namespace

void addAttention(KernelSet& set) {
  set.attention[0] = {kTaskRows, 0, &tileCopyBytes, &loadQueries<F32Dot>, &attend<F32Dot, float>, &finish<float>};
  set.attention[1] = {kTaskRows, 0, &tileCopyBytes, &loadQueries<Bf16Dot>, &attend<Bf16Dot, uint16_t>, &finish<uint16_t>};
  set.cappedAttention = set.attention[1];
  set.mergeStates = &mergeStates;
}

}  // namespace svc::cpu::SVC_ISA
