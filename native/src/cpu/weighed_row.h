// The weights of one row of logits, from which tokens are drawn and log-probabilities are made.
#pragma once

#include <numeric>
#include <vector>

#include "cpu/kernels.h"

namespace svc::cpu {

/// Memory of one thread, which grows to the largest vocabulary so far, and the row that is in it.
struct WeighedRow {
  float largest = 0;
  std::vector<float> weights;  // exp((logit - largest) / temperature)
  std::vector<double> sums;    // of each kWeighBlock of them
  double total = 0;

  void weigh(const KernelSet& set, const float* logits, int vocab, float temperature) {
    weights.resize(vocab);
    sums.resize((vocab + kWeighBlock - 1) / kWeighBlock);
    largest = set.largest(logits, vocab);
    set.weigh(logits, vocab, largest, 1.0f / temperature, weights.data(), sums.data());
    total = std::accumulate(sums.begin(), sums.end(), 0.0);
  }
};

}  // namespace svc::cpu
