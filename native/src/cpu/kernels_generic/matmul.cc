// Matrix products, compiled once for each instruction set: the Makefile gives SVC_ISA, its name, SVC_SIMD, its vectors, and SVC_CODES, how
// they multiply codes.

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <array>
#include <utility>

#include "cpu/dispatch.h"

namespace svc::cpu::SVC_ISA {
namespace {

#include SVC_SIMD
#include "cpu/kernels_generic/exp.h"
#include "cpu/kernels_generic/tile.h"
#include "cpu/kernels_generic/matmul.h"
#include "cpu/kernels_generic/low_rank.h"
#include "cpu/kernels_generic/quantize.h"
#include SVC_CODES

}  // namespace

void addMatmul(KernelSet& set) {
  set.panelsAtOnce = kMostPanels;
  // Activations of these rows stay in the second-level cache while the panels pass.
  set.rowsOfTask = 192;
  set.panelsOfTask = 8;
  set.linear[0] = &linear<F32Dot>;
  set.linear[1] = &linear<Bf16Dot>;
  set.linear[2] = &linear<Int8Dot>;
  set.linear[4] = &linear<TernaryDot>;
  set.gateUp[0] = &gateUp<F32Dot, float>;
  set.gateUp[1] = &gateUp<Bf16Dot, uint16_t>;
  set.gateUp[2] = &gateUp<Int8Dot, uint16_t>;
  set.gateUp[4] = &gateUp<TernaryDot, uint16_t>;
  set.lowRank[0] = &lowRank<F32Dot>;
  set.lowRank[1] = &lowRank<Bf16Dot>;
  addCodes(set);
  set.quantizeInt4 = &quantizeInt4;
  set.quantize[0] = &quantize<float>;
  set.quantize[1] = &quantize<uint16_t>;
}

}  // namespace svc::cpu::SVC_ISA
