/**
 * Numbers, as many as a power of two, added in f32: ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)). Neighbours, 2, 4 or 8 from a multiple
 * of so many on, are a subtree.
 */
export function sumAsTree(numbers: readonly number[]): number {
  if (numbers.length === 1) return Math.fround(numbers[0]!);
  const half = numbers.length / 2;
  return Math.fround(sumAsTree(numbers.slice(0, half)) + sumAsTree(numbers.slice(half)));
}
