// Picks one token a row of logits: what `sample` of the op interface defines.
#pragma once

#include "cpu/products.h"

namespace svc::cpu {

/// By row, as in `SamplingRows` of the op interface.
struct SamplingSettings {
  const float* temperature;
  const int32_t* topK;
  const float* topP;
  const float* minP;
  const double* uniform;
};

/// In the place of a token where a logit is NaN or +infinity. -infinity is a token that must not be sampled.
constexpr int32_t kNoToken = -1;

void runSample(ThreadPool&, const KernelSet&, Rows logits, int vocab, const SamplingSettings&, int32_t* tokens);

}  // namespace svc::cpu
