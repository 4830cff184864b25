// The standard normal distribution: what share of it lies below a number, and below which number a share lies.

/** P(X <= x) of a standard normal X, to 1e-15: its series near 0, else its continued fraction. */
export function normalShare(x: number): number {
  const size = Math.abs(x);
  const density = Math.exp(-0.5 * x * x) / Math.sqrt(2 * Math.PI);
  if (size < 3) {
    let [term, sum] = [size, size];
    for (let i = 3; i < 120; i += 2) {
      term *= (size * size) / i;
      sum += term;
    }
    return x < 0 ? 0.5 - density * sum : 0.5 + density * sum;
  }
  let fraction = size;
  for (let i = 60; i > 0; i--) fraction = size + i / fraction;
  return x < 0 ? density / fraction : 1 - density / fraction;
}

/** The number below which the share `share`, between 0 and 1, of a standard normal distribution lies. */
export function normalQuantile(share: number): number {
  if (share < 0.5) return -normalQuantile(1 - share);
  // From 0 on the share grows ever more slowly: Newton's steps come from below and never pass the number.
  let [number, step] = [0, 1];
  while (step > 1e-12) {
    step = (share - normalShare(number)) * Math.sqrt(2 * Math.PI) * Math.exp(0.5 * number * number);
    number += step;
  }
  return number;
}
