// The batch sizes that decode steps have where their launches are recorded.

const SMALL = 8;
const STEP = 8;
/** A larger batch keeps the device busy for much longer than its launches take. */
const LARGEST = 256;

/** 1, 2, 4, 8 and the multiples of 8 up to 256: the next of them, or `count` itself past the last. */
export function paddedBatchSize(count: number): number {
  if (count > LARGEST) return count;
  return count <= SMALL ? 2 ** Math.ceil(Math.log2(Math.max(1, count))) : Math.ceil(count / STEP) * STEP;
}
