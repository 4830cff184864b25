// The sum over k of a product whose input ranks make: defined so that ranks which hold ranges of k would have the same bits as those that
// hold all of it. The sum of the ranks (`sumRanks`), and of groups of experts, is the same tree.

/** How many there are. */
export type Segments = 1 | 2 | 4 | 8;

/** Of every product whose input ranks make, with one rank, too. */
export const ROW_PARALLEL_SEGMENTS: Segments = 8;

/** k is cut between multiples of so many columns. */
export const SEGMENT_UNIT = 32;

/** [segments + 1] the first column of each segment, then k. Segments differ by one unit at most; where k is short, some are empty. */
export function segmentStarts(k: number, segments: Segments): number[] {
  const units = Math.ceil(k / SEGMENT_UNIT);
  return Array.from({ length: segments + 1 }, (_, i) =>
    Math.min(k, Math.floor((units * i) / segments) * SEGMENT_UNIT),
  );
}

/**
 * Sums of segments, as many as a power of two, added in f32: ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)). Neighbours, 2, 4 or 8 from
 * a multiple of so many on, are a subtree.
 */
export function sumOfSegments(sums: readonly number[]): number {
  if (sums.length === 1) return Math.fround(sums[0]!);
  const half = sums.length / 2;
  return Math.fround(sumOfSegments(sums.slice(0, half)) + sumOfSegments(sums.slice(half)));
}
