// Attention in plain C++: the shared bodies, compiled for this instruction set.

#include <utility>

#include "cpu/dispatch.h"

namespace svc::cpu::portable {
namespace {

#include "cpu/portable/simd.h"
#include "cpu/body/exp.h"
#include "cpu/body/tile.h"
#include "cpu/body/linear.h"
#include "cpu/body/attention.h"

}  // namespace

void addAttention(KernelSet& set) {
  set.attention[0] = {&loadQueries<F32Dot>, &attend<F32Dot, float>, &finish<float>};
  set.attention[1] = {&loadQueries<Bf16Dot>, &attend<Bf16Dot, uint16_t>, &finish<uint16_t>};
  set.mergeStates = &mergeStates;
}

}  // namespace svc::cpu::portable
