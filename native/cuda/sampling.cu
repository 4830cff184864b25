// Picks one token a row: temperature, then min_p, top_k and top_p, each on the tokens that are left, then the draw. One block of
// threads a row. Whole weights (weights.cuh) are summed in any order, so that the draw does not depend on how threads share a row.

#include "math.cuh"
#include "weights.cuh"

namespace svc::cuda {

using Whole = unsigned long long;

constexpr int kDigits = 256;

/// Of one row, shared by its threads.
struct Shared {
  Whole sums[kDigits];
  Whole ofThreads[kLogitThreads];
  int equals[kLogitThreads];
  unsigned key;  // digits of the threshold that have been found
  Whole rest;    // what the tokens at the threshold and above must still reach
  int token;
};

/// The bits of weights above 0 have the order of the weights. Logits are brought to the same order.
__device__ __forceinline__ uint32_t orderOf(float logit) { return static_cast<uint32_t>(keyOf({logit, 0}) >> 32); }

/// What is left of a row.
struct Kept {
  float minP;
  uint32_t leastLogit;   // of `orderOf`
  uint32_t leastWeight;  // bits of the smallest weight that is kept
  int numEqual;          // so many tokens of that weight, those with the lowest ids
};

struct Row {
  const float* x;
  int vocab;
  float largest, temperature;

  __device__ TokenWeight weight(float logit) const { return weightOf(logit, largest, temperature); }
};

/// The 32 bits, digit by digit, at which the amounts of what is at least as large first come to `goal`. `each` calls its argument with
/// the bits, and the amount, of everything that the thread has. Leaves in `rest` what those at these bits must add.
template <class Each>
__device__ uint32_t thresholdOf(Shared& shared, Whole goal, const Each& each) {
  if (thread() == 0) {
    shared.key = 0;
    shared.rest = goal;
  }
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = thread(); i < kDigits; i += threads()) shared.sums[i] = 0;
    __syncthreads();
    const uint32_t found = shared.key;
    each([&](uint32_t bits, Whole amount) {
      const bool isAlike = shift == 24 || bits >> (shift + 8) == found >> (shift + 8);
      if (isAlike && amount > 0) atomicAdd(&shared.sums[bits >> shift & 255], amount);
    });
    __syncthreads();
    if (thread() == 0) {
      int digit = kDigits - 1;
      while (digit > 0 && shared.sums[digit] < shared.rest) shared.rest -= shared.sums[digit--];
      shared.key = found | static_cast<uint32_t>(digit) << shift;
    }
    __syncthreads();
  }
  const uint32_t key = shared.key;
  __syncthreads();
  return key;
}

/// Calls use(id, weight) for the tokens that min_p and top_k keep, those of this thread.
template <class Use>
__device__ void eachLikely(const Row& row, const Kept& kept, int begin, int end, int step, const Use& use) {
  eachLogit(row.x, begin, end, step, [&](int id, float logit) {
    const TokenWeight weight = row.weight(logit);
    if (weight.value >= kept.minP && orderOf(logit) >= kept.leastLogit) use(id, weight);
  });
}

__device__ void cutTopK(Shared& shared, const Row& row, int k, Kept& kept) {
  if (k <= 0 || k >= row.vocab) return;
  const auto goal = static_cast<Whole>(k);
  // What k logits reach in any case: the k-th largest of those that are the largest of a thread. Few others do, so that threads seldom
  // add to the same sum.
  uint32_t largest = 0;
  eachLogit(row.x, thread(), row.vocab, threads(), [&](int, float logit) { largest = Max()(largest, orderOf(logit)); });
  const uint32_t reached = thresholdOf(shared, goal, [&](const auto& add) { add(largest, Whole{1}); });
  kept.leastLogit = thresholdOf(shared, goal, [&](const auto& add) {
    eachLogit(row.x, thread(), row.vocab, threads(), [&](int, float logit) {
      if (orderOf(logit) >= reached) add(orderOf(logit), Whole{1});
    });
  });
}

__device__ Whole totalOf(const Row& row, const Kept& kept) {
  Whole total = 0;
  eachLikely(row, kept, thread(), row.vocab, threads(), [&](int, const TokenWeight& weight) { total += weight.whole; });
  return reduceBlock(total, Add());
}

/// The most probable tokens are kept until their weights reach topP of all, the lower id first among equals.
__device__ void cutTopP(Shared& shared, const Row& row, float topP, Kept& kept) {
  if (topP >= 1.0f) return;
  const auto goal = static_cast<Whole>(static_cast<double>(totalOf(row, kept)) * topP);
  // At least one token is kept.
  kept.leastWeight = thresholdOf(shared, goal > 0 ? goal : 1, [&](const auto& add) {
    eachLikely(row, kept, thread(), row.vocab, threads(),
               [&](int, const TokenWeight& weight) { add(bitsAs<uint32_t>(weight.value), weight.whole); });
  });
  const auto each = static_cast<Whole>(bitsAs<float>(kept.leastWeight) * static_cast<float>(kWhole));
  kept.numEqual = each == 0 ? 0 : static_cast<int>((shared.rest + each - 1) / each);
}

/// Each thread has a run of ids here, so that ids are in order.
struct Run {
  int begin, end;
};
__device__ Run runOf(int vocab, int thread) {
  const int length = ceilDiv(vocab, threads()), begin = thread * length < vocab ? thread * length : vocab;
  return {begin, begin + length < vocab ? begin + length : vocab};
}

/// Calls use(id, weight) for the kept tokens of a run, of whose kind `numBefore` with the smallest weight are before it.
template <class Use>
__device__ void eachKept(const Row& row, const Kept& kept, const Run& run, int numBefore, const Use& use) {
  eachLikely(row, kept, run.begin, run.end, 1, [&](int id, const TokenWeight& weight) {
    const auto bits = bitsAs<uint32_t>(weight.value);
    if (bits < kept.leastWeight || (bits == kept.leastWeight && numBefore++ >= kept.numEqual)) return;
    use(id, weight.whole);
  });
}

/// The sum of the values of the threads before this one. Leaves that of all in values[threads() - 1].
template <class T>
__device__ T sumBefore(T* values, T mine) {
  values[thread()] = mine;
  for (int step = 1; step < threads(); step *= 2) {
    __syncthreads();
    const T left = thread() >= step ? values[thread() - step] : 0;
    __syncthreads();
    values[thread()] += left;
  }
  __syncthreads();
  return values[thread()] - mine;
}

/// The first id at which the running sum exceeds uniform * total; the last one kept where rounding leaves none.
__device__ int draw(Shared& shared, const Row& row, const Kept& kept, double uniform) {
  const Run run = runOf(row.vocab, thread());
  int equals = 0;
  eachLikely(row, kept, run.begin, run.end, 1, [&](int, const TokenWeight& weight) {
    equals += bitsAs<uint32_t>(weight.value) == kept.leastWeight ? 1 : 0;
  });
  const int numBefore = sumBefore(shared.equals, equals);
  Whole sum = 0;
  eachKept(row, kept, run, numBefore, [&](int, Whole whole) { sum += whole; });
  const Whole before = sumBefore(shared.ofThreads, sum), total = shared.ofThreads[threads() - 1];
  const auto reached = static_cast<Whole>(uniform * static_cast<double>(total));
  const Whole target = reached < total ? reached : total - 1;
  if (before <= target && target < before + sum) {
    Whole running = before;
    eachKept(row, kept, run, numBefore, [&](int id, Whole whole) {
      if (running <= target && target < running + whole) shared.token = id;
      running += whole;
    });
  }
  __syncthreads();
  return shared.token;
}

/// The best entry of a row: that before all, which is no token, where a logit is broken.
__device__ Entry bestOf(const float* x, int vocab) {
  Entry best = {-kInfinity, thread()};
  bool isBroken = false;
  eachLogit<16>(x, thread(), vocab, kLogitThreads, [&](int id, float logit) {
    if (logit > best.value) best = {logit, id};
    isBroken |= !(logit < kInfinity);
  });
  const Whole key = thread() < vocab ? keyOf(isBroken ? beforeAll() : best) : 0;
  return entryOf(reduceBlock(key, Max()));
}

SVC_KERNEL(svcSample, SampleParams, kLogitThreads) {
  __shared__ Shared shared;
  const int index = static_cast<int>(blockIdx.x);
  const float* x = p.logits + index * p.stride;
  const Entry best = bestOf(x, p.vocab);
  int token = best.id;
  // Where every token is forbidden there is nothing to draw from.
  if (token >= 0 && p.temperature[index] != 0.0f && best.value != -kInfinity) {
    const Row row = {x, p.vocab, best.value, p.temperature[index]};
    Kept kept = {p.minP[index], 0, 0, 0};
    cutTopK(shared, row, p.topK[index], kept);
    cutTopP(shared, row, p.topP[index], kept);
    token = draw(shared, row, kept, p.uniform[index]);
  }
  if (thread() == 0) p.tokens[index] = token;
}

}  // namespace svc::cuda
