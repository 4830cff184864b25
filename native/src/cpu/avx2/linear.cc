// Matrix products in AVX2, FMA and F16C: the shared bodies, compiled for this instruction set.

#include <immintrin.h>

#include <utility>

#include "cpu/dispatch.h"

namespace svc::cpu::avx2 {
namespace {

#include "cpu/avx2/simd.h"
#include "cpu/body/exp.h"
#include "cpu/body/tile.h"
#include "cpu/body/linear.h"

}  // namespace

void addLinear(KernelSet& set) {
  set.panelsAtOnce = kMostPanels;
  set.linear[0] = &linear<F32Dot>;
  set.linear[1] = &linear<Bf16Dot>;
  set.gateUp[0] = &gateUp<F32Dot, float>;
  set.gateUp[1] = &gateUp<Bf16Dot, uint16_t>;
}

}  // namespace svc::cpu::avx2
