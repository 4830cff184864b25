// How patches turn by where they are in the plane of an image.

import type { RopeSections } from '../../ops/ops.ts';

/** The first half of the pairs by the line of a patch, the other half by its column. */
export function planeSections(headDim: number): RopeSections {
  return { lines: headDim / 4, columns: headDim / 4, alternate: false };
}
