// Ops of layers with states, compiled once for each instruction set: the Makefile gives SVC_ISA, its name, and SVC_SIMD, its
// vectors.

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <type_traits>

#include "cpu/dispatch.h"

namespace svc::cpu::SVC_ISA {
namespace {

#include SVC_SIMD
#include "cpu/kernels_generic/exp.h"
#include "cpu/kernels_generic/recurrent.h"

}  // namespace

void addRecurrent(KernelSet& set) {
  set.convolve = &convolve;
  set.deltaGates = &deltaGates;
  set.deltaTokens = &deltaTokens;
  set.scanTimes = &scanTimes;
  set.scanTokens = &scanTokens;
}

}  // namespace svc::cpu::SVC_ISA
