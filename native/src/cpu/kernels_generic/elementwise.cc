// Ops on single rows, compiled once for each instruction set: the Makefile gives SVC_ISA, its name, and SVC_SIMD, its
// vectors.

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
#include "cpu/kernels_generic/elementwise.h"
#include "cpu/kernels_generic/streams.h"
#include "cpu/kernels_generic/sampling.h"
#include "cpu/kernels_generic/peak.h"

}  // namespace

void addElementwise(KernelSet& set) {
  set.rmsNorm[0] = &rmsNorm<float>;
  set.rmsNorm[1] = &rmsNorm<uint16_t>;
  set.layerNorm[0] = &layerNorm<float>;
  set.layerNorm[1] = &layerNorm<uint16_t>;
  set.rope = &rope;
  set.ropeInterleaved = &ropeInterleaved;
  set.activate[0] = &activate<float>;
  set.activate[1] = &activate<uint16_t>;
  set.xielu[0] = &xielu<float>;
  set.xielu[1] = &xielu<uint16_t>;
  set.gate[0][0] = &gate<float, float>;
  set.gate[0][1] = &gate<float, uint16_t>;
  set.gate[1][0] = &gate<uint16_t, float>;
  set.gate[1][1] = &gate<uint16_t, uint16_t>;
  set.addScaled = &addScaled;
  set.scale = &scale;
  set.softcap = &softcap;
  set.clip = &clip;
  set.scaleColumns[0] = &scaleColumns<float>;
  set.scaleColumns[1] = &scaleColumns<uint16_t>;
  set.sparsify = &sparsify;
  set.bringToMagnitude = &bringToMagnitude;
  set.addMixed = &addMixed;
  set.widen[0] = &widenF32;
  set.widen[1] = &widen16<loadBf16>;
  set.widen[2] = &widen16<loadHalf>;
  set.narrow = &narrow;
  set.hasBroken = &hasBroken;
  set.argmax = &argmax;
  set.largest = &largest;
  set.weigh = &weigh;
  set.forbid = &forbid;
  set.peak = &peak<WidestDot>;
  set.peakInt8 = &peak<Int8Dot>;
}

}  // namespace svc::cpu::SVC_ISA
