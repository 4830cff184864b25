// Mixtures of experts: routes tokens, and computes each expert's tokens together, with the products of all weights.
#pragma once

#include <vector>

#include "cpu/elementwise.h"
#include "cpu/matmul.h"

namespace svc::cpu {

/// A token and how much an expert of it counts.
struct RoutedRow {
  int32_t row;
  float weight;
};

/// Memory that mixtures use again; each piece grows to the largest one seen.
struct ExpertsMemory {
  /// [tokens, topK]
  std::vector<int32_t> ids;
  std::vector<float> weights;
  /// Those of expert e, counted from the rank's first, are routed[starts[e]] up to routed[starts[e + 1]], in the order of the tokens.
  std::vector<int> starts;
  std::vector<RoutedRow> routed;
  /// Those of a token are places[firsts[token]] up to places[firsts[token + 1]], indices of `routed` in the order of ids.
  std::vector<int> firsts, places;
  /// Of one expert: its rows of x, and between its products; without a gate, sums before their activation as well.
  Pages inputs, hidden, sums;
  /// Of all routed rows.
  Pages outputs;
  /// Of each thread: sums of groups of one token.
  std::vector<std::vector<float>> tokenSums;
};

/// out [tokens, n] f32 = the weighted outputs of the token's experts, so that a token's sum does not depend on its company: those of a
/// group (`firstOfGroup`) are summed in the order of their ids, and the groups as a binary tree. A group without any is -0, which
/// changes no sum. x [tokens, k] has the weights' input format.
void runExperts(ThreadPool&, const KernelSet&, ProductMemory&, ExpertsMemory&, const Experts&, Rows logits, Rows x, Rows out);

}  // namespace svc::cpu
