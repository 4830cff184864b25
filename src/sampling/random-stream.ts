// The random numbers of sampling: a pure function of (seed, sample, position), so that a sequence draws the same
// numbers at any load, after a preemption and on another instance.
// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).

const MULTIPLIER_0 = 0xd2511f53;
const MULTIPLIER_1 = 0xcd9e8d57;
const WEYL_0 = 0x9e3779b9;
const WEYL_1 = 0xbb67ae85;
const ROUNDS = 10;
const TWO_POW_32 = 2 ** 32;

/** @returns a number in [0, 1) with 53 random bits; `seed` is any integer of 64 bits, negative ones included. */
export function uniform(seed: number, sample: number, position: number): number {
  const [high, low] = philox(
    [sample >>> 0, position >>> 0, 0, 0],
    [seed >>> 0, Math.floor(seed / TWO_POW_32) >>> 0],
  );
  return ((high >>> 5) * 2 ** 26 + (low >>> 6)) / 2 ** 53;
}

type Counter = readonly [number, number, number, number];

/** Ten rounds of Philox over 32-bit words; exported for its published test vectors. */
export function philox(counter: Counter, key: readonly [number, number]): Counter {
  let [c0, c1, c2, c3] = counter;
  let [k0, k1] = key;
  for (let round = 0; round < ROUNDS; round += 1) {
    const high0 = multiplyHigh(MULTIPLIER_0, c0);
    const low0 = Math.imul(MULTIPLIER_0, c0) >>> 0;
    const high1 = multiplyHigh(MULTIPLIER_1, c2);
    const low1 = Math.imul(MULTIPLIER_1, c2) >>> 0;
    [c0, c1, c2, c3] = [(high1 ^ c1 ^ k0) >>> 0, low1, (high0 ^ c3 ^ k1) >>> 0, low0];
    k0 = (k0 + WEYL_0) >>> 0;
    k1 = (k1 + WEYL_1) >>> 0;
  }
  return [c0, c1, c2, c3];
}

/** Upper 32 bits of the 64-bit product of two unsigned 32-bit numbers. */
function multiplyHigh(a: number, b: number): number {
  const aHigh = a >>> 16;
  const aLow = a & 0xffff;
  const bHigh = b >>> 16;
  const bLow = b & 0xffff;
  const cross = aHigh * bLow + ((aLow * bLow) >>> 16);
  const middle = aLow * bHigh + (cross & 0xffff);
  return (aHigh * bHigh + Math.floor(cross / 65536) + Math.floor(middle / 65536)) >>> 0;
}
