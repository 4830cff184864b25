// Arguments of ops beside tensors. They own their numbers: an op may run after JavaScript has changed or freed its
// arrays. `src/ops/ops.ts` defines each field.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace svc {

/// Token ids. Some may not be sampled yet: the id -1 - i means sampled[i].
struct TokenIds {
  int64_t vocab;
  /// The token of the table's first row: a rank may have a part of the vocabulary.
  int64_t first;
  std::vector<int32_t> ids;
  /// The result of a `sample` op, complete before the ops after it run.
  const int32_t* sampled;

  int64_t size() const { return static_cast<int64_t>(ids.size()); }

  /// All ids, once the op runs. A sequence for which no token could be sampled goes on with token 0 until the reader of
  /// the results ends it. Throws std::range_error if a token was sampled from a larger vocabulary.
  std::vector<int32_t> resolve() const {
    std::vector<int32_t> tokens = ids;
    for (int32_t& token : tokens) {
      if (token < 0) token = std::max(0, sampled[-1 - token]);
      if (token < 0 || token >= vocab) {
        throw std::range_error("expected tokens below " + std::to_string(vocab) + ", sampled " + std::to_string(token));
      }
    }
    return tokens;
  }
};

/// Ids listed row by row.
struct IdLists {
  std::vector<int32_t> rows, starts, ids;

  int count() const { return static_cast<int>(rows.size()); }
};

/// Which tokens the rows may sample: row after row, bit i % 32 of word i / 32 is token i.
struct TokenMasks {
  std::vector<int32_t> rows;
  std::vector<uint32_t> words;

  static int64_t wordsOf(int64_t vocab) { return (vocab + 31) / 32; }
};

struct LogitEdits {
  IdLists lists;
  std::vector<float> biases;
  std::vector<int32_t> counts;
  std::vector<float> repetition, frequency, presence;
};

/// Which log-probabilities a request wants, and the arrays for them.
struct LogprobRows {
  std::vector<int32_t> rows;
  TokenIds tokens;
  int numTop;
  float* logprobs;
  int32_t* ranks;
  int32_t* topIds;
  float* topLogprobs;
};

/// One entry a row of logits.
struct SamplingRows {
  std::vector<float> temperature;
  std::vector<int32_t> topK;
  std::vector<float> topP, minP;
  std::vector<double> uniform;
};

/// The result in place of a token if a logit is NaN or +infinity. -infinity marks a token that must not be sampled.
constexpr int32_t kNoToken = -1;

}  // namespace svc
