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

/// Vectors of either type, V16 and StateVector.
template <class V>
inline V splatAs(float value) {
  if constexpr (std::is_same_v<V, V16>) return splat(value);
  else return V::splat(value);
}
template <class V>
inline V loadAs(const float* p) {
  if constexpr (std::is_same_v<V, V16>) return load(p);
  else return V::load(p);
}
template <class V>
inline V loadFirstAs(const float* p, int count) {
  if constexpr (std::is_same_v<V, V16>) return loadFirst(p, count);
  else return V::loadFirst(p, count);
}

/// A sum over the rows of a state: four side by side, since one alone would wait for itself.
template <class V>
struct RowSums {
  V of[4] = {splatAs<V>(0.0f), splatAs<V>(0.0f), splatAs<V>(0.0f), splatAs<V>(0.0f)};

  V total() const { return (of[0] + of[1]) + (of[2] + of[3]); }
};

/// Calls visit(row, which of the four sums it belongs to). This and what calls it is inlined: numbers in memory would make a token take
/// up to three times as long.
template <class Visit>
[[gnu::always_inline]] inline void eachStateRow(int rows, const Visit& visit) {
  int row = 0;
  for (; row + 4 <= rows; row += 4) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) visit(row + i, i);
  }
  for (; row < rows; ++row) visit(row, 0);
}

template <class V>
V sumOfRows(const float* state, const float* factors, int rows) {
  RowSums<V> sums;
  eachStateRow(rows, [&](int row, int i) __attribute__((always_inline)) {
    sums.of[i] = fma(splatAs<V>(factors[row]), loadAs<V>(state + row * kLanes), sums.of[i]);
  });
  return sums.total();
}

/// How a token changes columns of a state [rows, 16]: to decay * state + write * change.
template <class V>
struct StateChange {
  float* state;
  const float* write;
  V decay, change;

  [[gnu::always_inline]] V advance(int row) const {
    const V numbers = fma(splatAs<V>(write[row]), change, decay * loadAs<V>(state + row * kLanes));
    store(state + row * kLanes, numbers);
    return numbers;
  }
};

/// Changes the state; returns read · state.
template <class V>
[[gnu::always_inline]] inline V advance(const StateChange<V>& by, const float* read, int rows) {
  RowSums<V> sums;
  eachStateRow(rows, [&](int row, int i) __attribute__((always_inline)) {
    sums.of[i] = fma(splatAs<V>(read[row]), by.advance(row), sums.of[i]);
  });
  return sums.total();
}

/// The same, and known = next · state: the row is at hand, and the next token need not load it again.
template <class V>
[[gnu::always_inline]] inline V advance(const StateChange<V>& by, const float* read, const float* next, int rows, V& known) {
  RowSums<V> sums, nextSums;
  eachStateRow(rows, [&](int row, int i) __attribute__((always_inline)) {
    const V numbers = by.advance(row);
    sums.of[i] = fma(splatAs<V>(read[row]), numbers, sums.of[i]);
    nextSums.of[i] = fma(splatAs<V>(next[row]), numbers, nextSums.of[i]);
  });
  known = nextSums.total();
  return sums.total();
}

/// Values of tokens are as far apart as all heads are wide, where the processor does not fetch them by itself.
inline void fetchAhead(const StateTokens& tokens, int token) {
  constexpr int kTokensAhead = 2;
  __builtin_prefetch(tokens.values + (token + kTokensAhead) * tokens.valuesStride);
  __builtin_prefetch(tokens.out + (token + kTokensAhead) * tokens.outStride, 1);
}

/// Tokens for the columns of a state from `column` on, as many as V has lanes.
template <class V>
void deltaColumns(float* state, const StateTokens& tokens, int column) {
  V known = sumOfRows<V>(state, tokens.write, tokens.rows);
  for (int i = 0; i < tokens.count; ++i) {
    fetchAhead(tokens, i);
    const float* const write = tokens.write + i * tokens.writeStride;
    const float* const read = tokens.read + i * tokens.readStride;
    const V decay = splatAs<V>(tokens.decays[i * tokens.gateStride]);
    const V values = loadFirstAs<V>(tokens.values + i * tokens.valuesStride + column, tokens.columns - column);
    const StateChange<V> by{state, write, decay, (values - decay * known) * splatAs<V>(tokens.shares[i * tokens.gateStride])};
    const bool isLast = i + 1 == tokens.count;
    const V sum = isLast ? advance(by, read, tokens.rows) : advance(by, read, write + tokens.writeStride, tokens.rows, known);
    storeFirst(tokens.out + i * tokens.outStride + column, sum, tokens.columns - column);
  }
}

inline void deltaTokens(float* state, const StateTokens& tokens) {
  // A single token has four sums at a time, several have eight, which may be more than the registers hold of V16.
  if (tokens.count == 1) return deltaColumns<V16>(state, tokens, 0);
  for (int column = 0; column < smaller(kLanes, tokens.columns); column += kStateLanes) {
    deltaColumns<StateVector>(state + column, tokens, column);
  }
}

inline void scanTokens(float* state, const StateTokens& tokens, float skip) {
  for (int i = 0; i < tokens.count; ++i) {
    fetchAhead(tokens, i);
    const V16 values = loadFirst(tokens.values + i * tokens.valuesStride, tokens.columns);
    const StateChange<V16> by{state, tokens.write + i * tokens.writeStride, splat(tokens.decays[i * tokens.gateStride]),
                              values * splat(tokens.shares[i * tokens.gateStride])};
    const V16 sum = advance(by, tokens.read + i * tokens.readStride, tokens.rows);
    storeFirst(tokens.out + i * tokens.outStride, fma(splat(skip), values, sum), tokens.columns);
  }
}
