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

inline void scanTimes(const float* steps, const float* rates, const float* stepBias, int heads, float* decays, float* times) {
  for (int i = 0; i < heads; i += kLanes) {
    const int count = smaller(kLanes, heads - i);
    const V16 time = softplus(loadFirst(steps + i, count) + loadFirst(stepBias + i, count));
    storeFirst(decays + i, exponential(loadFirst(rates + i, count) * time), count);
    storeFirst(times + i, time, count);
  }
}

/// A sum over the rows of a state: four side by side, since one alone would wait for itself.
struct RowSums {
  V16 of[4] = {splat(0.0f), splat(0.0f), splat(0.0f), splat(0.0f)};

  V16 total() const { return (of[0] + of[1]) + (of[2] + of[3]); }
};

/// Calls visit(row, which of the four sums it belongs to).
template <class Visit>
void eachStateRow(int rows, const Visit& visit) {
  int row = 0;
  for (; row + 4 <= rows; row += 4) {
    for (int i = 0; i < 4; ++i) visit(row + i, i);
  }
  for (; row < rows; ++row) visit(row, 0);
}

inline RowSums sumOfRows(const float* state, const float* factors, int rows) {
  RowSums sums;
  eachStateRow(rows, [&](int row, int i) { sums.of[i] = fma(splat(factors[row]), load(state + row * kLanes), sums.of[i]); });
  return sums;
}

/// state = decay * state + write * change; returns read · state, and where `next` is not null, next · state in `known`.
inline V16 advance(float* state, const float* write, const float* read, const float* next, int rows, float decay, V16 change,
                   RowSums& known) {
  RowSums sums;
  const V16 kept = splat(decay);
  const auto advanced = [&](int row) {
    const V16 numbers = fma(splat(write[row]), change, kept * load(state + row * kLanes));
    store(state + row * kLanes, numbers);
    return numbers;
  };
  if (next == nullptr) {
    eachStateRow(rows, [&](int row, int i) { sums.of[i] = fma(splat(read[row]), advanced(row), sums.of[i]); });
    return sums.total();
  }
  known = RowSums();
  // The row is at hand: the next token need not load it again.
  eachStateRow(rows, [&](int row, int i) {
    const V16 numbers = advanced(row);
    sums.of[i] = fma(splat(read[row]), numbers, sums.of[i]);
    known.of[i] = fma(splat(next[row]), numbers, known.of[i]);
  });
  return sums.total();
}

inline void deltaTokens(float* state, const StateTokens& tokens) {
  RowSums known = sumOfRows(state, tokens.write, tokens.rows);
  for (int i = 0; i < tokens.count; ++i) {
    const float* const write = tokens.write + i * tokens.writeStride;
    const float* const next = i + 1 < tokens.count ? write + tokens.writeStride : nullptr;
    const float decay = tokens.decays[i * tokens.gateStride];
    const V16 values = loadFirst(tokens.values + i * tokens.valuesStride, tokens.columns);
    const V16 change = (values - splat(decay) * known.total()) * splat(tokens.shares[i * tokens.gateStride]);
    const V16 read = advance(state, write, tokens.read + i * tokens.readStride, next, tokens.rows, decay, change, known);
    storeFirst(tokens.out + i * tokens.outStride, read, tokens.columns);
  }
}

inline void scanTokens(float* state, const StateTokens& tokens, float skip) {
  RowSums none;
  for (int i = 0; i < tokens.count; ++i) {
    const V16 values = loadFirst(tokens.values + i * tokens.valuesStride, tokens.columns);
    const V16 change = values * splat(tokens.shares[i * tokens.gateStride]);
    const V16 read = advance(state, tokens.write + i * tokens.writeStride, tokens.read + i * tokens.readStride, nullptr, tokens.rows,
                             tokens.decays[i * tokens.gateStride], change, none);
    storeFirst(tokens.out + i * tokens.outStride, fma(splat(skip), values, read), tokens.columns);
  }
}
