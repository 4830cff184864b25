// Passes over a row of logits. Included inside an instruction set's namespace, after exp.h and matmul.h.

/// Tests bits, not floats, since fast-math flags cannot remove that: the size, less 1 where the sign is set, of what is broken is
/// infinity's at least.
inline bool hasBroken(const float* logits, int count) {
  constexpr int32_t kInfinity = 0x7f800000;
  int32_t most = 0;
  for (int i = 0; i < count; ++i) {
    int32_t bits;
    __builtin_memcpy(&bits, logits + i, sizeof bits);
    const int32_t size = (bits & 0x7fffffff) + (bits >> 31);
    most = size > most ? size : most;
  }
  return most >= kInfinity;
}

inline float largest(const float* x, int count) {
  V16 most = splat(-__builtin_inff());
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) most = max(load(x + i), most);
  float result = largestLane(most);
  for (; i < count; ++i) result = x[i] > result ? x[i] : result;
  return result;
}

inline int argmax(const float* x, int count) {
  const float most = largest(x, count);
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const unsigned below = greaterMask(splat(most), load(x + i));
    if (below != 0xffffu) return i + __builtin_ctz(~below);
  }
  while (i < count - 1 && x[i] < most) ++i;
  return i;
}

inline void weigh(const float* x, int count, float most, float inverseTemperature, float* out, double* sums) {
  const V16 shift = splat(most), factor = splat(inverseTemperature);
  for (int begin = 0; begin < count; begin += kWeighBlock) {
    V16 sum = splat(0.0f);
    for (int i = begin; i < smaller(begin + kWeighBlock, count); i += kLanes) {
      const int taken = smaller(kLanes, count - i);
      const V16 weights = exponential((loadFirst(x + i, taken) - shift) * factor);
      storeFirst(out + i, weights, taken);
      sum = sum + keepLanes(weights, 0, taken, splat(0.0f));
    }
    *sums++ = sumLanes(sum);
  }
}

inline void forbid(float* x, const uint32_t* allowed, int count) {
  const V16 forbidden = splat(-__builtin_inff());
  for (int begin = 0; begin < count; begin += 32) {
    const int left = count - begin;
    const uint32_t present = left < 32 ? (1u << left) - 1u : ~0u;
    const uint32_t bits = ~*allowed++ & present;
    if (bits == 0) continue;
    storeWhere(x + begin, forbidden, bits & 0xffffu);
    if (left > kLanes) storeWhere(x + begin + kLanes, forbidden, bits >> kLanes);
  }
}
