// exp, log, tanh and the activations, by polynomials of our own: only roundings that IEEE 754 defines, and a multiply-add only where
// it is written, so that a GPU and the emulation have the same bits.
#pragma once

#include "device.cuh"

namespace svc::cuda {

/// The nearest whole number of |x| < 2^22: adding 1.5 * 2^23 leaves no bits for a fraction.
__device__ __forceinline__ float nearest(float x) { return (x + 12582912.0f) - 12582912.0f; }

/// What the exponential of a number is made of: (1 + r + p * r * r) * powerOf2.
struct ExponentialParts {
  float r, p, powerOf2;
};

constexpr float kLowestExponent = -87.33654f;

/// Of a number from kLowestExponent to 88.
__device__ __forceinline__ ExponentialParts partsOfExponential(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23 leaves no bits for a fraction
  // The low bits are those of the whole number n.
  const float shifted = x * 1.44269504f + kRound, n = shifted - kRound;
  // ln 2 in two pieces: the product with the first is exact.
  float r = fma(n, -0.693359375f, x);
  r = fma(n, 2.12194440e-4f, r);
  float p = 1.9875691e-4f;
  p = fma(p, r, 1.3981999e-3f);
  p = fma(p, r, 8.3334519e-3f);
  p = fma(p, r, 4.1665796e-2f);
  p = fma(p, r, 1.6666665e-1f);
  p = fma(p, r, 5.0000001e-1f);
  return {r, p, bitsAs<float>((bitsAs<uint32_t>(shifted) << 23) + bitsAs<uint32_t>(1.0f))};
}

/// `exponential` of a number that is at most 88.
__device__ __forceinline__ float boundedExponential(float x) {
  const ExponentialParts e = partsOfExponential(x);
  const float result = fma(e.p, e.r * e.r, e.r + 1.0f) * e.powerOf2;
  return x < kLowestExponent ? 0.0f : result;
}

/// exp(x) - 1 for x <= 0: relative error below 3e-7; NaN stays NaN.
__device__ __forceinline__ float exponentialLess1(float x) {
  const ExponentialParts e = partsOfExponential(x < kLowestExponent ? kLowestExponent : x);
  return fma(fma(e.p, e.r * e.r, e.r), e.powerOf2, e.powerOf2 - 1.0f);
}

/// Relative error below 2e-7; exactly 1 at 0 and exactly 0 below -87.3, so that what is masked vanishes; NaN stays NaN.
__device__ __forceinline__ float exponential(float x) {
  constexpr float kHighest = 88.37626f;
  return boundedExponential(x > kHighest ? kHighest : x);
}

/// Relative error below 1e-15; exactly 0 below -708; NaN stays NaN.
__device__ __forceinline__ double exponential(double x) {
  constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52 leaves no bits for a fraction
  if (x < -708.0) return 0.0;
  const double clamped = x > 709.0 ? 709.0 : x;
  const double n = (clamped * 1.4426950408889634 + kRound) - kRound;
  double r = fma(n, -6.93147180369123816490e-01, clamped);
  r = fma(n, -1.90821492927058770002e-10, r);
  double sum = 1.0;
  for (int i = 13; i >= 1; --i) sum = fma(sum * r, 1.0 / i, 1.0);
  return sum * bitsAs<double>((static_cast<int64_t>(n) + 1023) << 52);
}

/// Of a normal number above 0; relative error below 1e-15 away from 1.
__device__ __forceinline__ double logarithm(double x) {
  const auto bits = bitsAs<int64_t>(x);
  int64_t exponent = (bits >> 52) - 1023;
  double m = bitsAs<double>((bits & 0xfffffffffffffll) | 0x3ff0000000000000ll);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  // log m = 2 artanh(s)
  const double s = (m - 1.0) / (m + 1.0), square = s * s;
  double sum = 0.0;
  for (int i = 23; i >= 1; i -= 2) sum = fma(sum, square, 1.0 / i);
  return fma(static_cast<double>(exponent), 0.6931471805599453, 2.0 * s * sum);
}

/// Relative error below 3e-7; NaN stays NaN.
__device__ __forceinline__ float hyperbolicTangent(float x) {
  const float size = x < 0.0f ? -x : x;
  if (size < 0.6f) {
    // The quotient would cancel.
    const float square = x * x;
    float p = -5.9058685e-3f;
    p = fma(p, square, 2.0805385e-2f);
    p = fma(p, square, -5.3786684e-2f);
    p = fma(p, square, 1.3331959e-1f);
    p = fma(p, square, -3.3333300e-1f);
    return fma(x * square, p, x);
  }
  const float far = 1.0f - 2.0f / (exponential(size + size) + 1.0f);
  return x < 0.0f ? -far : far;
}

/// x * sigmoid(y)
__device__ __forceinline__ float timesSigmoid(float x, float y) { return x / (1.0f + exponential(-y)); }

/// x times the share of a normal distribution below x: absolute error below 3e-7. The share beyond |x| is exp(-x²/2) times
/// a function that is nearly a polynomial of 1 / (1 + 0.35 |x|).
__device__ __forceinline__ float gelu(float x) {
  const float size = x < 0.0f ? -x : x;
  const float t = 1.0f / fma(size, 0.35f, 1.0f);
  float p = -2.91459280e-02f;
  p = fma(p, t, 1.43971680e-01f);
  p = fma(p, t, -2.55714240e-01f);
  p = fma(p, t, 1.59174130e-01f);
  p = fma(p, t, -2.31098140e-02f);
  p = fma(p, t, 1.05507990e-01f);
  p = fma(p, t, 1.19832870e-01f);
  p = fma(p, t, 1.39861870e-01f);
  p = fma(p, t, 1.39621400e-01f);
  const float beyond = exponential(size * size * -0.5f) * t * p;
  return (x < 0.0f ? 0.0f : x) - size * beyond;
}

/// x * (1 + tanh(u)) / 2 of u = sqrt(2 / pi) * (x + 0.044715 x³), which is x * sigmoid(2u).
__device__ __forceinline__ float geluTanh(float x) {
  return timesSigmoid(x, fma(x * x * 0.044715f, x, x) * 1.5957691f);
}

__device__ __forceinline__ float relu(float x) { return x < 0.0f ? 0.0f : x; }

/// Squares above 0, an exponential below, where x is at most `least`; NaN stays NaN.
__device__ __forceinline__ float xielu(float positive, float negative, float linear, float least, float x) {
  if (x > 0.0f) return x * fma(positive, x, linear);
  return fma(negative, exponentialLess1(x > least ? least : x) - x, linear * x);
}

/// `activation` as svc::Activation numbers them.
__device__ __forceinline__ float activated(int activation, float x) {
  switch (activation) {
    case 0: return timesSigmoid(x, x);
    case 1: return gelu(x);
    case 2: return geluTanh(x);
    case 3: return relu(x);
    default: return relu(x) * relu(x);
  }
}

/// Calls use<activation>() with a constant.
template <class Use>
__device__ __forceinline__ void withActivation(int activation, const Use& use) {
  switch (activation) {
    case 0: return use.template operator()<0>();
    case 1: return use.template operator()<1>();
    case 2: return use.template operator()<2>();
    case 3: return use.template operator()<3>();
    case 4: return use.template operator()<4>();
    default: return use.template operator()<5>();
  }
}

/// `activation` as svc::GatedActivation numbers them: the last one is that of gpt-oss, clamped.
__device__ __forceinline__ float gated(int activation, float gate, float up) {
  if (activation != 5) return activated(activation, gate) * up;
  gate = gate > 7.0f ? 7.0f : gate;
  up = up > 7.0f ? 7.0f : up < -7.0f ? -7.0f : up;
  return (up + 1.0f) * timesSigmoid(gate, gate * 1.702f);
}

}  // namespace svc::cuda
