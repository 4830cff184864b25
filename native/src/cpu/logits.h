// Restriction, biases and penalties of single logits, and log-probabilities: `logits` ops of the op interface.
#pragma once

#include "cpu/products.h"

namespace svc::cpu {

/// Ids listed row by row, as `IdLists` of the op interface.
struct IdLists {
  int count;
  const int32_t* rows;
  const int32_t* starts;
  const int32_t* ids;
};

/// As `LogitEdits` of the op interface.
struct LogitEdits {
  IdLists lists;
  const float* biases;
  const int32_t* counts;
  const float* repetition;
  const float* frequency;
  const float* presence;
};

/// As arguments and result of `logprobs` of the op interface.
struct LogprobRows {
  int count;
  int numTop;
  const int32_t* rows;
  const int32_t* tokenIds;
  float* logprobs;
  int32_t* ranks;
  int32_t* topIds;
  float* topLogprobs;
};

void runRestrict(ThreadPool&, Rows logits, int vocab, const IdLists&);
void runEdit(Rows logits, const LogitEdits&);
void runLogprobs(ThreadPool&, const KernelSet&, Rows logits, int vocab, const LogprobRows&);

}  // namespace svc::cpu
