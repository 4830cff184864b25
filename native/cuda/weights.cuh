// Logits as weights exp((x - largest) / temperature), and the search for the largest. Sums of weights are sums of whole numbers, of
// which a weight of 1 has 2^44: they are the same in any order, and exact.
#pragma once

#include "math.cuh"

namespace svc::cuda {

constexpr double kWhole = 17592186044416.0;  // 2^44: the weights of 2^18 tokens have 2^62

struct TokenWeight {
  float value;
  unsigned long long whole;
};

__device__ __forceinline__ TokenWeight weightOf(float x, float largest, float temperature) {
  const float value = exponential((x - largest) / temperature);
  // A float times 2^44 is a float, and whole from 2^-20 on; what is smaller is rounded down.
  return {value, static_cast<unsigned long long>(value * static_cast<float>(kWhole))};
}

struct Entry {
  float value;
  int id;
};
/// Better than all.
__device__ __forceinline__ Entry beforeAll() { return {kInfinity, -1}; }

/// The larger value, the lower id among equals.
__device__ __forceinline__ bool isBetter(const Entry& a, const Entry& b) {
  return a.value != b.value ? a.value > b.value : a.id < b.id;
}

/// An entry as a whole number, of which the better one has the larger.
__device__ __forceinline__ unsigned long long keyOf(const Entry& entry) {
  // -0 equals 0.
  const auto bits = bitsAs<uint32_t>(entry.value + 0.0f);
  const uint32_t ordered = bits >> 31 ? ~bits : bits | 0x80000000u;
  return static_cast<unsigned long long>(ordered) << 32 | static_cast<uint32_t>(~entry.id);
}
__device__ __forceinline__ Entry entryOf(unsigned long long key) {
  const auto ordered = static_cast<uint32_t>(key >> 32);
  const uint32_t bits = ordered >> 31 ? ordered & 0x7fffffffu : ~ordered;
  return {bitsAs<float>(bits), static_cast<int>(~static_cast<uint32_t>(key))};
}

/// Calls use(id, logit) for ids from `begin` on, `step` apart, in order. Few threads share a row, so each has kAtOnce loads on their way: no branch
/// is between them.
template <int kAtOnce = 8, class Use>
__device__ __forceinline__ void eachLogit(const float* x, int begin, int end, int step, const Use& use) {
  int first = begin;
  for (; first + (kAtOnce - 1) * step < end; first += kAtOnce * step) {
    float logits[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) logits[i] = x[first + i * step];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) use(first + i * step, logits[i]);
  }
  for (; first < end; first += step) use(first, x[first]);
}

/// The best entry of a row that is worse than `than`, in every thread.
__device__ inline Entry largestOf(const float* x, int vocab, const Entry& than) {
  unsigned long long best = 0;
  eachLogit(x, thread(), vocab, threads(), [&](int id, float logit) {
    if (isBetter(than, {logit, id})) best = Max()(best, keyOf({logit, id}));
  });
  return entryOf(reduceBlock(best, Max()));
}

}  // namespace svc::cuda
