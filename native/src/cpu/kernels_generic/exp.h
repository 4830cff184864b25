// exp, tanh and the activations on sixteen floats. Included inside an instruction set's namespace, after its simd header.

constexpr int smaller(int a, int b) { return a < b ? a : b; }

/// What the exponential of numbers is made of: (1 + r + p * r * r) * 2^n.
struct ExponentialParts {
  V16 n, r, p;
};

constexpr float kLowestExponent = -87.33654f;

/// Of numbers from kLowestExponent to 88.
inline ExponentialParts partsOfExponential(V16 x) {
  const V16 n = nearest(x * splat(1.44269504f));
  // ln 2 in two pieces: the product with the first is exact.
  V16 r = fma(n, splat(-0.693359375f), x);
  r = fma(n, splat(2.12194440e-4f), r);
  V16 p = splat(1.9875691e-4f);
  p = fma(p, r, splat(1.3981999e-3f));
  p = fma(p, r, splat(8.3334519e-3f));
  p = fma(p, r, splat(4.1665796e-2f));
  p = fma(p, r, splat(1.6666665e-1f));
  p = fma(p, r, splat(5.0000001e-1f));
  return {n, r, p};
}

/// Relative error below 2e-7; exactly 1 at 0 and exactly 0 below -87.3, so that masked lanes vanish; NaN stays NaN.
inline V16 exponential(V16 x) {
  const V16 lowest = splat(kLowestExponent), highest = splat(88.37626f);
  const auto [n, r, p] = partsOfExponential(max(lowest, selectLess(highest, x, highest, x)));
  return selectLess(x, lowest, splat(0.0f), timesPowerOf2(fma(p, r * r, r + splat(1.0f)), n));
}

/// exp(x) - 1 for x <= 0: relative error below 3e-7; NaN stays NaN.
inline V16 exponentialLess1(V16 x) {
  const auto [n, r, p] = partsOfExponential(max(splat(kLowestExponent), x));
  const V16 powerOf2 = timesPowerOf2(splat(1.0f), n);
  return fma(fma(p, r * r, r), powerOf2, powerOf2 - splat(1.0f));
}

/// 2^x for x <= 0: relative error below 2e-7; exactly 1 at 0 and exactly 0 below -126; NaN stays NaN.
inline V16 exponential2(V16 x) {
  const V16 lowest = splat(-126.0f);
  const V16 clamped = max(lowest, x);
  const V16 n = nearest(clamped);
  const V16 r = clamped - n;
  V16 p = splat(1.5403530e-4f);
  p = fma(p, r, splat(1.3333558e-3f));
  p = fma(p, r, splat(9.6181291e-3f));
  p = fma(p, r, splat(5.5504109e-2f));
  p = fma(p, r, splat(2.4022651e-1f));
  p = fma(p, r, splat(6.9314718e-1f));
  p = fma(p, r, splat(1.0f));
  return selectLess(x, lowest, splat(0.0f), timesPowerOf2(p, n));
}

/// Relative error below 3e-7; NaN stays NaN.
inline V16 hyperbolicTangent(V16 x) {
  const V16 zero = splat(0.0f), one = splat(1.0f);
  const V16 size = max(zero - x, x);
  // Near 0 the quotient would cancel.
  const V16 square = x * x;
  V16 p = splat(-5.9058685e-3f);
  p = fma(p, square, splat(2.0805385e-2f));
  p = fma(p, square, splat(-5.3786684e-2f));
  p = fma(p, square, splat(1.3331959e-1f));
  p = fma(p, square, splat(-3.3333300e-1f));
  const V16 near = fma(x * square, p, x);
  const V16 far = one - splat(2.0f) / (exponential(size + size) + one);
  return selectLess(size, splat(0.6f), near, selectLess(x, zero, zero - far, far));
}

/// x / (1 + exp(-y)): relative error below 4e-6, and 6e-7 for |y| < 8; NaN stays NaN. Cheaper than by `exponential`, for vectors
/// make it beside the matrix unit and are the slower of the two.
inline V16 timesSigmoid(V16 x, V16 y) {
  const V16 clamped = max(splat(-87.0f), min(splat(87.0f), y));
  const V16 log2E = splat(1.44269504f);
  const V16 n = nearest(clamped * splat(-1.44269504f));
  const V16 r = fma(clamped, log2E, n);
  // 2^-r for |r| <= 1/2.
  V16 p = splat(-1.3276472e-3f);
  p = fma(p, r, splat(9.6755413e-3f));
  p = fma(p, r, splat(-5.5507133e-2f));
  p = fma(p, r, splat(2.4022120e-1f));
  p = fma(p, r, splat(-6.9314697e-1f));
  p = fma(p, r, splat(1.0000001f));
  return x / (splat(1.0f) + timesPowerOf2(p, n));
}

inline V16 silu(V16 x) { return timesSigmoid(x, x); }

/// x times the share of a normal distribution below x: absolute error below 3e-7. The share beyond |x| is exp(-x²/2) times
/// a function that is nearly a polynomial of 1 / (1 + 0.35 |x|).
inline V16 gelu(V16 x) {
  const V16 zero = splat(0.0f);
  const V16 size = max(zero - x, x);
  const V16 t = splat(1.0f) / fma(size, splat(0.35f), splat(1.0f));
  V16 p = splat(-2.91459280e-02f);
  p = fma(p, t, splat(1.43971680e-01f));
  p = fma(p, t, splat(-2.55714240e-01f));
  p = fma(p, t, splat(1.59174130e-01f));
  p = fma(p, t, splat(-2.31098140e-02f));
  p = fma(p, t, splat(1.05507990e-01f));
  p = fma(p, t, splat(1.19832870e-01f));
  p = fma(p, t, splat(1.39861870e-01f));
  p = fma(p, t, splat(1.39621400e-01f));
  const V16 beyond = exponential(size * size * splat(-0.5f)) * t * p;
  return max(zero, x) - size * beyond;
}

/// x * (1 + tanh(u)) / 2 of u = sqrt(2 / pi) * (x + 0.044715 x³), which is x * sigmoid(2u).
inline V16 geluTanh(V16 x) {
  const V16 cubic = fma(x * x * splat(0.044715f), x, x);
  return timesSigmoid(x, cubic * splat(1.5957691f));
}

/// NaN stays NaN.
inline V16 relu(V16 x) { return selectLess(x, splat(0.0f), splat(0.0f), x); }

/// The square of relu.
inline V16 relu2(V16 x) {
  const V16 positive = relu(x);
  return positive * positive;
}

/// Squares above 0, an exponential below; NaN stays NaN.
inline V16 xielu(const Xielu& factors, V16 x) {
  const V16 zero = splat(0.0f), linear = splat(factors.linear);
  const V16 above = x * fma(splat(factors.positive), x, linear);
  const V16 below = fma(splat(factors.negative), exponentialLess1(min(splat(factors.least), x)) - x, linear * x);
  return selectLess(zero, x, above, below);
}

/// Calls use(function) with the activation as a function of sixteen floats.
template <class Use>
void withActivation(Activation activation, const Use& use) {
  switch (activation) {
    case Activation::Silu: return use([](V16 x) { return silu(x); });
    case Activation::Gelu: return use([](V16 x) { return gelu(x); });
    case Activation::GeluTanh: return use([](V16 x) { return geluTanh(x); });
    case Activation::Relu: return use([](V16 x) { return relu(x); });
    case Activation::Relu2: return use([](V16 x) { return relu2(x); });
  }
}

/// The swish of gpt-oss, x * sigmoid(1.702 x), of a gate of at most 7, times 1 more than `up` between -7 and 7; NaN stays NaN.
inline V16 clampedSwiglu(V16 gate, V16 up) {
  const V16 one = splat(1.0f), most = splat(7.0f), least = splat(-7.0f);
  gate = selectLess(most, gate, most, gate);
  up = selectLess(most, up, most, selectLess(up, least, least, up));
  return (up + one) * timesSigmoid(gate, gate * splat(1.702f));
}

/// Calls use(function) with the activation as a function of a gate and what it lets through.
template <class Use>
void withGatedActivation(GatedActivation gated, const Use& use) {
  if (gated == GatedActivation::ClampedSwiglu) return use([](V16 gate, V16 up) { return clampedSwiglu(gate, up); });
  withActivation(static_cast<Activation>(gated),
                 [&](auto activated) { use([&](V16 gate, V16 up) { return activated(gate) * up; }); });
}
