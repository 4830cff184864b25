// Changes of logits, and their log-probabilities: one block of threads a row.

#include "math.cuh"
#include "weights.cuh"

namespace svc::cuda {

__device__ __forceinline__ float* rowOf(const IdListParams& p) {
  return p.logits + p.rows[blockIdx.x] * p.stride;
}

SVC_KERNEL(svcRestrictLogits, RestrictLogitsParams, kLogitThreads) {
  const IdListParams& lists = p.lists;
  float* x = rowOf(lists);
  const int begin = lists.starts[blockIdx.x], end = lists.starts[blockIdx.x + 1];
  for (int i = begin + thread(); i < end; i += threads()) p.kept[i] = x[lists.ids[i]];
  __syncthreads();
  for (int i = thread(); i < lists.vocab; i += threads()) x[i] = -kInfinity;
  __syncthreads();
  for (int i = begin + thread(); i < end; i += threads()) x[lists.ids[i]] = p.kept[i];
}

SVC_KERNEL(svcMaskLogits, MaskLogitsParams, kLogitThreads) {
  float* x = p.logits + p.rows[blockIdx.x] * p.stride;
  const uint32_t* words = p.words + static_cast<int64_t>(blockIdx.x) * ceilDiv(p.vocab, 32);
  for (int i = thread(); i < p.vocab; i += threads()) {
    if ((words[i / 32] >> i % 32 & 1) == 0) x[i] = -kInfinity;
  }
}

__device__ float edited(const EditLogitsParams& p, float x, int at) {
  constexpr float kLargest = 3.4028234663852886e38f;
  const int count = p.counts[at], row = static_cast<int>(blockIdx.x);
  x += p.biases[at];
  if (count >= 0) x = x > 0.0f ? x / p.repetition[row] : x * p.repetition[row];
  if (count > 0) {
    x -= static_cast<float>(count) * p.frequency[row];
    x -= p.presence[row];
  }
  // A tiny repetition penalty would make infinities, which no softmax can tell apart.
  return x > kLargest ? kLargest : x;
}

/// An id may come twice, so the changes of one id are all made by one thread.
SVC_KERNEL(svcEditLogits, EditLogitsParams, kLogitThreads) {
  float* x = rowOf(p.lists);
  for (int at = p.lists.starts[blockIdx.x]; at < p.lists.starts[blockIdx.x + 1]; ++at) {
    const int id = p.lists.ids[at];
    if (id % threads() == thread()) x[id] = edited(p, x[id], at);
  }
}

/// log of the sum of exp(x)
__device__ double normaliser(const float* x, int vocab, float largest) {
  unsigned long long total = 0;
  eachLogit(x, thread(), vocab, threads(), [&](int, float logit) { total += weightOf(logit, largest, 1.0f).whole; });
  return static_cast<double>(largest) + logarithm(static_cast<double>(reduceBlock(total, Add())) / kWhole);
}

SVC_KERNEL(svcLogprobs, LogprobsParams, kLogitThreads) {
  const int index = static_cast<int>(blockIdx.x);
  const float* x = p.logits + p.rows[index] * p.stride;
  Entry last = largestOf(x, p.vocab, beforeAll());
  const double total = normaliser(x, p.vocab, last.value);
  const int id = p.ids[index] >= 0 ? p.ids[index] : p.sampled[-1 - p.ids[index]];
  const int token = id < 0 || id >= p.vocab ? 0 : id;
  const float logit = x[token];
  int larger = 0;
  eachLogit(x, thread(), p.vocab, threads(), [&](int, float other) { larger += other > logit ? 1 : 0; });
  larger = reduceBlock(larger, Add());
  if (thread() == 0) {
    if (id >= p.vocab) *p.fault = 1;
    p.logprobs[index] = static_cast<float>(logit - total);
    p.ranks[index] = larger + 1;
  }
  for (int i = 0; i < p.numTop; ++i) {
    if (i > 0) last = largestOf(x, p.vocab, last);
    if (thread() != 0) continue;
    const int64_t at = static_cast<int64_t>(index) * p.numTop + i;
    p.topIds[at] = last.id;
    p.topLogprobs[at] = static_cast<float>(last.value - total);
  }
}

}  // namespace svc::cuda
