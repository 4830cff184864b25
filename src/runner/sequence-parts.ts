// The parts of a sequence that attention takes as sequences of their own, with the same keys and values: tokens of an image that see each
// other, and those between that see none after them.

import type { ScheduledSequence } from '../scheduler/scheduled-step.ts';
import type { Range } from '../util/ranges.ts';

export interface SequencePart extends Range {
  /** Whether its tokens see those after them, up to the end of the part. */
  readonly seesAhead: boolean;
}

/** By their positions, one after the other, all tokens of the sequence that the step computes. */
export function partsOf({
  firstPosition,
  tokenIds,
  wholeRanges = [],
}: Pick<ScheduledSequence, 'firstPosition' | 'tokenIds' | 'wholeRanges'>): SequencePart[] {
  const parts: SequencePart[] = [];
  let first = firstPosition;
  const take = (end: number, seesAhead: boolean): void => {
    // The last token of an image sees no more than one of text.
    if (end > first) parts.push({ first, end, seesAhead: seesAhead && end - first > 1 });
    first = Math.max(first, end);
  };
  for (const range of wholeRanges) {
    take(range.first, false);
    take(range.end, true);
  }
  take(firstPosition + tokenIds.length, false);
  return parts;
}
