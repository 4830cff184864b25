// Which experts compute a token, and how much each counts: router logits to ids and weights.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"

namespace svc::cpu {

/// Routes token after token; keeps memory for one.
class Router {
 public:
  /// @param bias one number for each of `experts`, or null; `factors` the same.
  Router(const Routing& routing, const float* bias, const float* factors, int experts)
      : routing_(routing), bias_(bias), factors_(factors), scores_(experts), choices_(experts), taken_(experts), groups_(routing.groups) {}

  /// Writes `topK` different ids, the best first, and their weights. `logits` has one number for each expert; whatever they
  /// are, NaN included, the ids are valid.
  void route(const float* logits, int32_t* ids, float* weights);

 private:
  void score(const float* logits);
  void dropGroups();
  void shareAmongNear(const float* logits, const int32_t* ids);

  const Routing& routing_;
  const float* bias_;
  const float* factors_;
  std::vector<double> scores_;
  std::vector<double> choices_;  // scores with the bias
  std::vector<char> taken_;      // experts that cannot be chosen any more
  std::vector<double> groups_;   // how good each group is
};

}  // namespace svc::cpu
