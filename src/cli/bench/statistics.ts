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
      10: percentile(sorted, 10),
      25: percentile(sorted, 25),
      50: percentile(sorted, 50),
      75: percentile(sorted, 75),
      90: percentile(sorted, 90),
      99: percentile(sorted, 99),
    },
  };
}

/** Between two values it lies on the line that joins them. */
function percentile(sorted: readonly number[], percent: number): number {
  const position = ((sorted.length - 1) * percent) / 100;
  const below = Math.floor(position);
  const above = Math.ceil(position);
  return sorted[below]! + (sorted[above]! - sorted[below]!) * (position - below);
}
