// Ops of layers with states. Included inside an instruction set's namespace, after exp.h.

/// out = bias + the sum over taps of weight * its inputs, the oldest first; then silu, where that follows.
inline void convolve(const float* const* inputs, int taps, const float* weight, int64_t stride, const float* bias, int cols,
                     bool isSilu, float* out) {
  for (int i = 0; i < cols; i += kLanes) {
    const int count = smaller(kLanes, cols - i);
    V16 sum = loadFirst(bias + i, count);
    for (int tap = 0; tap < taps; ++tap) {
      sum = fma(loadFirst(inputs[tap] + i, count), loadFirst(weight + tap * stride + i, count), sum);
    }
    storeFirst(out + i, isSilu ? silu(sum) : sum, count);
  }
}

/// log(1 + exp(x)): relative error below 1e-6.
inline V16 softplus(V16 x) {
  const V16 zero = splat(0.0f);
  // log(1 + u) = 2 artanh(w) of w = u / (2 + u), which is at most 1/3.
  const V16 u = exponential(min(x, zero - x));
  const V16 w = u / (splat(2.0f) + u);
  const V16 square = w * w;
  V16 p = splat(1.0f / 13.0f);
  p = fma(p, square, splat(1.0f / 11.0f));
  p = fma(p, square, splat(1.0f / 9.0f));
  p = fma(p, square, splat(1.0f / 7.0f));
  p = fma(p, square, splat(1.0f / 5.0f));
  p = fma(p, square, splat(1.0f / 3.0f));
  p = fma(p, square, splat(1.0f));
  return max(x, zero) + (w + w) * p;
}

inline void deltaGates(const float* forgetting, const float* writing, const float* rates, const float* rateBias, int heads,
                       float* decays, float* shares) {
  for (int i = 0; i < heads; i += kLanes) {
    const int count = smaller(kLanes, heads - i);
    const V16 speed = softplus(loadFirst(forgetting + i, count) + loadFirst(rateBias + i, count));
    storeFirst(decays + i, exponential(loadFirst(rates + i, count) * speed), count);
    storeFirst(shares + i, timesSigmoid(splat(1.0f), loadFirst(writing + i, count)), count);
  }
}

/// Four sums side by side: one alone would wait for itself.
struct RowSums {
  V16 of[4] = {splat(0.0f), splat(0.0f), splat(0.0f), splat(0.0f)};

  V16 total() const { return (of[0] + of[1]) + (of[2] + of[3]); }
};

/// state [rows, 16] = decay * state + write * change; returns read · state.
inline V16 advance(float* state, const float* write, const float* read, int rows, float decay, V16 change) {
  RowSums sums;
  const V16 kept = splat(decay);
  const auto advanceRow = [&](int at, V16& sum) {
    const V16 row = fma(splat(write[at]), change, kept * load(state + at * kLanes));
    store(state + at * kLanes, row);
    sum = fma(splat(read[at]), row, sum);
  };
  int i = 0;
  for (; i + 4 <= rows; i += 4) {
    for (int j = 0; j < 4; ++j) advanceRow(i + j, sums.of[j]);
  }
  for (; i < rows; ++i) advanceRow(i, sums.of[0]);
  return sums.total();
}

/// One token of a panel of a state: `state` [keyDim, 16] and what the token reads of it.
inline void deltaStep(float* state, const float* q, const float* k, int keyDim, const float* v, int columns, float decay,
                      float share, float* out) {
  RowSums known;
  const auto know = [&](int i, V16& sum) { sum = fma(splat(k[i]), load(state + i * kLanes), sum); };
  int i = 0;
  for (; i + 4 <= keyDim; i += 4) {
    for (int j = 0; j < 4; ++j) know(i + j, known.of[j]);
  }
  for (; i < keyDim; ++i) know(i, known.of[0]);

  const V16 change = (loadFirst(v, columns) - splat(decay) * known.total()) * splat(share);
  storeFirst(out, advance(state, k, q, keyDim, decay, change), columns);
}

inline void scanTimes(const float* steps, const float* rates, const float* stepBias, int heads, float* decays, float* times) {
  for (int i = 0; i < heads; i += kLanes) {
    const int count = smaller(kLanes, heads - i);
    const V16 time = softplus(loadFirst(steps + i, count) + loadFirst(stepBias + i, count));
    storeFirst(decays + i, exponential(loadFirst(rates + i, count) * time), count);
    storeFirst(times + i, time, count);
  }
}

inline void scanStep(float* state, const float* b, const float* c, int stateDim, const float* x, int columns, float decay,
                     float time, float skip, float* out) {
  const V16 value = loadFirst(x, columns);
  const V16 read = advance(state, b, c, stateDim, decay, value * splat(time));
  storeFirst(out, fma(splat(skip), value, read), columns);
}
