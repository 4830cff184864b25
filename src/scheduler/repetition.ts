// Whether an answer goes round in circles: its last tokens are one pattern, several times in a row.

/** Which repetitions end an answer. */
export interface RepetitionRule {
  /** Tokens of the shortest and of the longest pattern. */
  readonly minPatternSize: number;
  readonly maxPatternSize: number;
  /** How often the pattern must be there. */
  readonly minCount: number;
}

/** Looks at `tokens` from `start` to `end`. */
export function isRepeating(
  { minPatternSize, maxPatternSize, minCount }: RepetitionRule,
  tokens: readonly number[],
  start: number,
  end: number,
): boolean {
  for (let size = minPatternSize; size <= maxPatternSize; size++) {
    const first = end - size * minCount;
    if (first < start) return false;
    if (hasPeriod(tokens, first, end, size)) return true;
  }
  return false;
}

/** Backwards: most answers differ at once. */
function hasPeriod(tokens: readonly number[], first: number, end: number, size: number): boolean {
  for (let at = end - 1; at >= first + size; at--) if (tokens[at] !== tokens[at - size]) return false;
  return true;
}
