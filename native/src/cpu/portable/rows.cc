// Ops on single rows in plain C++: the shared bodies, compiled for this instruction set.

#include <utility>

#include "cpu/dispatch.h"

namespace svc::cpu::portable {
namespace {

#include "cpu/portable/simd.h"
#include "cpu/body/exp.h"
#include "cpu/body/tile.h"
#include "cpu/body/linear.h"
#include "cpu/body/rows.h"
#include "cpu/body/sampling.h"
#include "cpu/body/peak.h"

}  // namespace

void addRows(KernelSet& set) {
  set.rmsNorm[0] = &rmsNorm<float>;
  set.rmsNorm[1] = &rmsNorm<uint16_t>;
  set.rope = &rope;
  set.widen[0] = &widenF32;
  set.widen[1] = &widen16<loadBf16>;
  set.widen[2] = &widen16<loadHalf>;
  set.narrow = &narrow;
  set.argmax = &argmax;
  set.largest = &largest;
  set.weigh = &weigh;
  set.peak = &peak<F32Dot>;
}

}  // namespace svc::cpu::portable
