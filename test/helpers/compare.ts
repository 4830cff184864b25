// How far two lists of numbers are apart.

export function largestDifference(a: Float32Array, b: Float32Array): number {
  if (a.length !== b.length) throw new Error(`${a.length} numbers against ${b.length}`);
  return a.reduce((largest, value, i) => Math.max(largest, Math.abs(value - b[i]!)), 0);
}

/** 1 for the same direction. */
export function cosine(a: Float32Array, b: Float32Array): number {
  let [ab, aa, bb] = [0, 0, 0];
  for (const [i, value] of a.entries()) {
    ab += value * b[i]!;
    aa += value * value;
    bb += b[i]! * b[i]!;
  }
  return ab / Math.sqrt(aa * bb);
}
