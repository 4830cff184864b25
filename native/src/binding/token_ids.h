// Token ids of an op, of which some may not be known yet when it is called.
#pragma once

#include <cstdint>
#include <vector>

#include "binding/args.h"

namespace svc {

/// Two arguments: ids, and the tokens of a `sample` call. The id -1 - i stands for the i-th of those, as it is when the
/// op runs.
class TokenIds {
 public:
  TokenIds(Args& a, int64_t vocab) {
    const Span<const int32_t> ids = a.int32s(0);
    const Span<int32_t> sampled = a.keptInt32s(0);
    a.expectWithin("ids", ids, -sampled.length, vocab);
    ids_ = ids.copy();
    sampled_ = sampled.data;
  }

  int64_t size() const { return static_cast<int64_t>(ids_.size()); }
  int32_t operator[](int64_t i) const { return ids_[i] < 0 ? sampled_[-1 - ids_[i]] : ids_[i]; }

 private:
  std::vector<int32_t> ids_;
  const int32_t* sampled_;
};

}  // namespace svc
