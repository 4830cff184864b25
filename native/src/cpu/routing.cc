// In doubles: a token has few logits, and a choice must not hang on how an exponential is rounded.

#include "cpu/routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace svc::cpu {
namespace {

/// The index of the largest value that is not taken, the lowest among equals; at least one is free. Takes it.
int takeBest(const std::vector<double>& values, int begin, int end, std::vector<char>& taken) {
  int best = -1;
  for (int i = begin; i < end; ++i) {
    if (!taken[i] && (best < 0 || values[i] > values[best])) best = i;
  }
  taken[best] = 1;
  return best;
}

}  // namespace

void Router::score(const float* logits) {
  const size_t count = scores_.size();
  if (routing_.isSigmoid) {
    for (size_t i = 0; i < count; ++i) scores_[i] = 1.0 / (1.0 + std::exp(-static_cast<double>(logits[i])));
  } else {
    const double largest = *std::max_element(logits, logits + count);
    for (size_t i = 0; i < count; ++i) scores_[i] = std::exp(logits[i] - largest);
    const double sum = std::accumulate(scores_.begin(), scores_.end(), 0.0);
    for (double& score : scores_) score /= sum;
  }
  for (size_t i = 0; i < count; ++i) choices_[i] = scores_[i] + (bias_ == nullptr ? 0.0 : bias_[i]);
}

/// Leaves only the experts of the best groups free. A group is as good as its best experts together.
void Router::dropGroups() {
  const int groups = routing_.groups, size = static_cast<int>(choices_.size()) / groups;
  for (int group = 0; group < groups; ++group) {
    groups_[group] = 0.0;
    for (int i = 0; i < routing_.bestOfGroup; ++i) {
      groups_[group] += choices_[takeBest(choices_, group * size, (group + 1) * size, taken_)];
    }
  }
  std::vector<char> kept(groups, 0);
  for (int i = 0; i < routing_.keptGroups; ++i) takeBest(groups_, 0, groups, kept);
  for (size_t i = 0; i < taken_.size(); ++i) taken_[i] = !kept[i / size];
}

/// Each of the chosen, the best first, gets its share of the softmax over those that are near it and were not chosen before.
void Router::shareAmongNear(const float* logits, const int32_t* ids) {
  std::fill(taken_.begin(), taken_.end(), 0);
  for (int i = 0; i < routing_.topK; ++i) {
    const double best = logits[ids[i]];
    double sum = 0.0;
    for (size_t other = 0; other < taken_.size(); ++other) {
      const double logit = logits[other];
      const bool isFar = (best - logit) / std::max(std::abs(logit), best) > routing_.nearness;
      if (!taken_[other] && !isFar) sum += std::exp(logit - best);
    }
    scores_[ids[i]] = 1.0 / sum;
    taken_[ids[i]] = 1;
  }
}

void Router::route(const float* logits, int32_t* ids, float* weights) {
  const int count = static_cast<int>(choices_.size());
  score(logits);
  std::fill(taken_.begin(), taken_.end(), 0);
  if (routing_.groups > 1) dropGroups();
  for (int i = 0; i < routing_.topK; ++i) ids[i] = takeBest(choices_, 0, count, taken_);
  if (routing_.nearness > 0.0) shareAmongNear(logits, ids);
  double sum = 0.0;
  for (int i = 0; i < routing_.topK; ++i) sum += scores_[ids[i]];
  const double factor = routing_.isNormalized ? routing_.scale / sum : routing_.scale;
  for (int i = 0; i < routing_.topK; ++i) {
    const double own = factors_ == nullptr ? factor : factor * factors_[ids[i]];
    weights[i] = static_cast<float>(scores_[ids[i]] * own);
  }
}

}  // namespace svc::cpu
