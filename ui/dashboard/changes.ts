// Turns readings into lines: what happened between each reading and one a few seconds before it.

import type { Reading } from './prometheus.ts';

/** Readings that a rate looks back: a second alone jumps. */
const LOOK_BACK = 5;

export function timesOf(readings: readonly Reading[]): readonly number[] {
  return readings.map(({ at }) => at);
}

/** A value of each reading by itself. */
export function levels(readings: readonly Reading[], value: (now: Reading) => number): readonly number[] {
  return readings.map(value);
}

/** A value of what changed; null for the first reading. */
export function changes(
  readings: readonly Reading[],
  value: (before: Reading, now: Reading) => number | null,
): readonly (number | null)[] {
  return readings.map((now, place) => {
    const before = readings[Math.max(0, place - LOOK_BACK)];
    return place === 0 || before === undefined ? null : value(before, now);
  });
}
