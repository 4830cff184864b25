// Whole numbers that follow each other.

export interface Range {
  readonly first: number;
  /** Behind the last one. */
  readonly end: number;
}

/** The longest ranges that `numbers`, which rise, make up. */
export function rangesOf(numbers: readonly number[]): Range[] {
  const starts = numbers.flatMap((number, index) => (number - 1 === numbers[index - 1] ? [] : [index]));
  return starts.map((start, index) => {
    const next = starts[index + 1] ?? numbers.length;
    return { first: numbers[start]!, end: numbers[next - 1]! + 1 };
  });
}
