// Ranges of characters as ranges of the bytes that UTF-8 writes them with.

export type Range = readonly [low: number, high: number];

export const MAX_CODE_POINT = 0x10ffff;
const SURROGATES: Range = [0xd800, 0xdfff];
/** The last character of one, two, three and four bytes. */
const LAST_OF_LENGTH = [0x7f, 0x7ff, 0xffff, MAX_CODE_POINT] as const;

/** Each sequence is a range for each byte; surrogates, which UTF-8 cannot write, are left out. */
export function utf8Sequences(low: number, high: number): Range[][] {
  if (low > high) return [];
  if (low <= SURROGATES[1] && high >= SURROGATES[0]) {
    return [...utf8Sequences(low, SURROGATES[0] - 1), ...utf8Sequences(SURROGATES[1] + 1, high)];
  }
  for (const last of LAST_OF_LENGTH) {
    if (low <= last && high > last) return [...utf8Sequences(low, last), ...utf8Sequences(last + 1, high)];
  }
  // Bytes of a range are independent of each other only where all lower ones run through all values.
  for (let bits = 6; bits < 24 && low > LAST_OF_LENGTH[0]; bits += 6) {
    const mask = 2 ** bits - 1;
    if (Math.floor(low / (mask + 1)) === Math.floor(high / (mask + 1))) break;
    if ((low & mask) !== 0)
      return [...utf8Sequences(low, low | mask), ...utf8Sequences((low | mask) + 1, high)];
    if ((high & mask) !== mask)
      return [...utf8Sequences(low, (high & ~mask) - 1), ...utf8Sequences(high & ~mask, high)];
  }
  const first = Buffer.from(String.fromCodePoint(low));
  const last = Buffer.from(String.fromCodePoint(high));
  return [Array.from(first, (byte, i): Range => [byte, last[i]!])];
}

/** Sorted, without overlaps. */
export function mergeRanges(ranges: readonly Range[]): Range[] {
  const merged: [number, number][] = [];
  for (const [low, high] of ranges.toSorted((a, b) => a[0] - b[0])) {
    const before = merged.at(-1);
    if (before !== undefined && low <= before[1] + 1) before[1] = Math.max(before[1], high);
    else merged.push([low, high]);
  }
  return merged;
}

/** All characters that are in none of the ranges. */
export function invertRanges(ranges: readonly Range[]): Range[] {
  const inverted: Range[] = [];
  let next = 0;
  for (const [low, high] of mergeRanges(ranges)) {
    if (low > next) inverted.push([next, low - 1]);
    next = high + 1;
  }
  if (next <= MAX_CODE_POINT) inverted.push([next, MAX_CODE_POINT]);
  return inverted;
}
