// Ops that take one row at a time: normalisation, rotation, activation, conversions. Included inside an instruction set's
// namespace, after matmul.h.

/// out[i, i + count) = value
template <class Out>
void storeFirstOf(Out* out, V16 value, int count) {
  if (count >= kLanes) return storeActivation(out, value);
  alignas(64) Out rest[kLanes];
  storeActivation(rest, value);
  __builtin_memcpy(out, rest, static_cast<size_t>(count) * sizeof(Out));
}

inline float meanSquare(const float* x, int cols) {
  V16 even = splat(0.0f), odd = splat(0.0f);
  int i = 0;
  for (; i + 2 * kLanes <= cols; i += 2 * kLanes) {
    const V16 a = load(x + i), b = load(x + i + kLanes);
    even = fma(a, a, even);
    odd = fma(b, b, odd);
  }
  for (; i < cols; i += kLanes) {
    const V16 a = loadFirst(x + i, smaller(kLanes, cols - i));
    even = fma(a, a, even);
  }
  return sumLanes(even + odd) / static_cast<float>(cols);
}

template <class Out>
void rmsNorm(const float* x, const float* weight, int cols, float eps, void* out, int paddedCols) {
  const V16 factor = splat(1.0f / __builtin_sqrtf(meanSquare(x, cols) + eps));
  Out* to = static_cast<Out*>(out);
  int i = 0;
  for (; i + kLanes <= cols; i += kLanes) storeActivation(to + i, load(x + i) * factor * load(weight + i));
  if (i < cols) storeFirstOf(to + i, loadFirst(x + i, cols - i) * factor * loadFirst(weight + i, cols - i), cols - i);
  if (paddedCols > cols) __builtin_memset(to + cols, 0, static_cast<size_t>(paddedCols - cols) * sizeof(Out));
}

inline float meanOf(const float* x, int cols) {
  V16 sum = splat(0.0f);
  for (int i = 0; i < cols; i += kLanes) sum = sum + loadFirst(x + i, smaller(kLanes, cols - i));
  return sumLanes(sum) / static_cast<float>(cols);
}

/// That of the differences to the mean: the mean of squares would cancel.
inline float varianceOf(const float* x, V16 mean, int cols) {
  V16 squares = splat(0.0f);
  for (int i = 0; i < cols; i += kLanes) {
    const int count = smaller(kLanes, cols - i);
    const V16 difference = keepLanes(loadFirst(x + i, count) - mean, 0, count, splat(0.0f));
    squares = fma(difference, difference, squares);
  }
  return sumLanes(squares) / static_cast<float>(cols);
}

template <class Out>
void layerNorm(const float* x, const float* weight, const float* bias, int cols, float eps, void* out) {
  const V16 mean = splat(meanOf(x, cols));
  const V16 factor = splat(1.0f / __builtin_sqrtf(varianceOf(x, mean, cols) + eps));
  Out* to = static_cast<Out*>(out);
  for (int i = 0; i < cols; i += kLanes) {
    const int count = smaller(kLanes, cols - i);
    const V16 shift = bias == nullptr ? splat(0.0f) : loadFirst(bias + i, count);
    storeFirstOf(to + i, (loadFirst(x + i, count) - mean) * factor * loadFirst(weight + i, count) + shift, count);
  }
}

template <class Out>
void activate(Activation activation, const float* x, int cols, void* out) {
  Out* to = static_cast<Out*>(out);
  withActivation(activation, [&](auto activated) {
    for (int i = 0; i < cols; i += kLanes) {
      const int count = smaller(kLanes, cols - i);
      storeFirstOf(to + i, activated(loadFirst(x + i, count)), count);
    }
  });
}

template <class Out>
void xielu(const Xielu& factors, const float* x, int cols, void* out) {
  Out* to = static_cast<Out*>(out);
  for (int i = 0; i < cols; i += kLanes) {
    const int count = smaller(kLanes, cols - i);
    storeFirstOf(to + i, xielu(factors, loadFirst(x + i, count)), count);
  }
}

inline V16 loadActivation(const float* p, int count) { return loadFirst(p, count); }
inline V16 loadActivation(const uint16_t* p, int count) {
  if (count >= kLanes) return loadBf16(p);
  alignas(64) uint16_t rest[kLanes] = {};
  __builtin_memcpy(rest, p, static_cast<size_t>(count) * sizeof(uint16_t));
  return loadBf16(rest);
}

template <class In, class Out>
void gate(Gate opening, const void* x, const float* gates, int cols, void* out) {
  const In* from = static_cast<const In*>(x);
  Out* to = static_cast<Out*>(out);
  for (int i = 0; i < cols; i += kLanes) {
    const int count = smaller(kLanes, cols - i);
    const V16 value = loadActivation(from + i, count), by = loadFirst(gates + i, count);
    switch (opening) {
      case Gate::Silu: storeFirstOf(to + i, value * silu(by), count); break;
      case Gate::Sigmoid: storeFirstOf(to + i, timesSigmoid(value, by), count); break;
      case Gate::Identity: storeFirstOf(to + i, value * by, count); break;
    }
  }
}

/// x[0, cols) = change(x[0, cols)), 16 at a time.
template <class Change>
void changeRow(float* x, int cols, const Change& change) {
  for (int i = 0; i < cols; i += kLanes) {
    const int count = smaller(kLanes, cols - i);
    storeFirst(x + i, change(loadFirst(x + i, count), i, count), count);
  }
}

inline void addScaled(float* residual, const float* x, float factor, int cols) {
  const V16 by = splat(factor);
  changeRow(residual, cols, [&](V16 a, int i, int count) { return a + loadFirst(x + i, count) * by; });
}

inline void scale(float* x, float factor, int cols) {
  const V16 by = splat(factor);
  changeRow(x, cols, [&](V16 a, int, int) { return a * by; });
}

inline void softcap(float* x, float cap, int cols) {
  const V16 most = splat(cap), share = splat(1.0f / cap);
  changeRow(x, cols, [&](V16 a, int, int) { return most * hyperbolicTangent(a * share); });
}

inline void clip(float* x, float least, float most, int cols) {
  const V16 low = splat(least), high = splat(most);
  // NaN, as the second of the two, stays.
  changeRow(x, cols, [&](V16 a, int, int) { return min(high, max(low, a)); });
}

template <class Out>
void scaleColumns(const float* x, const float* factors, int cols, void* out) {
  Out* to = static_cast<Out*>(out);
  for (int i = 0; i < cols; i += kLanes) {
    const int count = smaller(kLanes, cols - i);
    storeFirstOf(to + i, loadFirst(x + i, count) * loadFirst(factors + i, count), count);
  }
}

inline void sparsify(float* x, float deviations, int cols) {
  const float mean = meanOf(x, cols);
  const V16 least = splat(mean + deviations * __builtin_sqrtf(varianceOf(x, splat(mean), cols))), zero = splat(0.0f);
  // NaN, as the second of the two, stays.
  changeRow(x, cols, [&](V16 a, int, int) { return max(zero, a - least); });
}

inline void rope(float* head, const float* table, int dims) {
  const int half = dims / 2;
  for (int i = 0; i < half; i += kLanes) {
    const int count = smaller(kLanes, half - i);
    const V16 a = loadFirst(head + i, count), b = loadFirst(head + half + i, count);
    const V16 cosine = loadFirst(table + i, count), sine = loadFirst(table + half + i, count);
    storeFirst(head + i, a * cosine - b * sine, count);
    storeFirst(head + half + i, b * cosine + a * sine, count);
  }
}

inline void ropeInterleaved(float* head, const float* table, int dims) {
  const int half = dims / 2;
  for (int i = 0; i < half; ++i) {
    const float a = head[2 * i], b = head[2 * i + 1];
    head[2 * i] = a * table[i] - b * table[half + i];
    head[2 * i + 1] = b * table[i] + a * table[half + i];
  }
}

inline void widenF32(const void* in, float* out, int64_t count) {
  __builtin_memcpy(out, in, static_cast<size_t>(count) * 4);
}

template <V16 (*Load)(const uint16_t*)>
void widen16(const void* in, float* out, int64_t count) {
  const char* from = static_cast<const char*>(in);
  int64_t i = 0;
  for (; i < count; i += kLanes) {
    const int taken = count - i < kLanes ? static_cast<int>(count - i) : kLanes;
    // Through a copy: a tensor may begin at an odd byte of its file.
    alignas(64) uint16_t bits[kLanes] = {};
    __builtin_memcpy(bits, from + i * 2, static_cast<size_t>(taken) * 2);
    storeFirst(out + i, Load(bits), taken);
  }
}

inline void narrow(const float* in, uint16_t* out, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) storeBf16(out + i, load(in + i));
  if (i < count) {
    alignas(64) uint16_t rest[kLanes];
    storeBf16(rest, loadFirst(in + i, static_cast<int>(count - i)));
    __builtin_memcpy(out + i, rest, static_cast<size_t>(count - i) * 2);
  }
}
