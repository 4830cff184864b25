// exp and silu on sixteen floats. Included inside an instruction set's namespace, after its simd header.

constexpr int smaller(int a, int b) { return a < b ? a : b; }

/// Relative error below 2e-7; exactly 1 at 0 and exactly 0 below -87.3, so that masked lanes vanish; NaN stays NaN.
inline V16 exponential(V16 x) {
  const V16 lowest = splat(-87.33654f), highest = splat(88.37626f);
  const V16 clamped = max(lowest, selectLess(highest, x, highest, x));
  const V16 n = nearest(clamped * splat(1.44269504f));
  // ln 2 in two pieces: the product with the first is exact.
  V16 r = fma(n, splat(-0.693359375f), clamped);
  r = fma(n, splat(2.12194440e-4f), r);
  V16 p = splat(1.9875691e-4f);
  p = fma(p, r, splat(1.3981999e-3f));
  p = fma(p, r, splat(8.3334519e-3f));
  p = fma(p, r, splat(4.1665796e-2f));
  p = fma(p, r, splat(1.6666665e-1f));
  p = fma(p, r, splat(5.0000001e-1f));
  p = fma(p, r * r, r + splat(1.0f));
  return selectLess(x, lowest, splat(0.0f), timesPowerOf2(p, n));
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

inline V16 silu(V16 x) { return x / (splat(1.0f) + exponential(splat(0.0f) - x)); }
