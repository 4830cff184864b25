// Token ids of an op, of which some may not be known yet when it is called.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "binding/args.h"

namespace svc {

/// Two arguments: ids, and the tokens of a `sample` call. The id -1 - i stands for the i-th of those, as it is when the
/// op runs.
class TokenIds {
 public:
  TokenIds(Args& a, int64_t vocab) : vocab_(vocab) {
    const Span<const int32_t> ids = a.int32s(0);
    const Span<int32_t> sampled = a.keptInt32s(0);
    a.expectWithin("ids", ids, -sampled.length, vocab);
    ids_ = ids.copy();
    sampled_ = sampled.data;
  }

  int64_t size() const { return static_cast<int64_t>(ids_.size()); }

  /// When the op runs: all of them. Where no token could be sampled it goes on with token 0: whoever reads what was
  /// sampled ends that sequence. Throws std::range_error where a token was sampled from a larger vocabulary.
  std::vector<int32_t> resolve() const {
    std::vector<int32_t> tokens = ids_;
    for (int32_t& token : tokens) {
      if (token < 0) token = std::max(0, sampled_[-1 - token]);
      if (token < 0 || token >= vocab_) {
        throw std::range_error("expected tokens below " + std::to_string(vocab_) + ", sampled " + std::to_string(token));
      }
    }
    return tokens;
  }

 private:
  int64_t vocab_;
  std::vector<int32_t> ids_;
  const int32_t* sampled_;
};

}  // namespace svc
