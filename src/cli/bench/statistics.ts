// What measurements of the same thing have in common.

/** Percentiles that are reported. */
export const PERCENTILES = [10, 25, 50, 75, 90, 99] as const;

export interface Summary {
  readonly mean: number;
  /** By percentile. */
  readonly percentiles: Readonly<Record<(typeof PERCENTILES)[number], number>>;
}

/** @param values at least one. */
export function summarise(values: readonly number[]): Summary {
  const sorted = values.toSorted((a, b) => a - b);
  return {
    mean: values.reduce((sum, value) => sum + value, 0) / values.length,
    percentiles: {
      10: percentileOf(sorted, 10),
      25: percentileOf(sorted, 25),
      50: percentileOf(sorted, 50),
      75: percentileOf(sorted, 75),
      90: percentileOf(sorted, 90),
      99: percentileOf(sorted, 99),
    },
  };
}

/** Of values in rising order, at least one; between two of them it is on the line that joins them. */
export function percentileOf(sorted: readonly number[], percent: number): number {
  const position = ((sorted.length - 1) * percent) / 100;
  const below = Math.floor(position);
  const above = Math.ceil(position);
  return sorted[below]! + (sorted[above]! - sorted[below]!) * (position - below);
}
