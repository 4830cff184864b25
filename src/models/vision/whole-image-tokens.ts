// How many tokens of an image see each other in the part that reads text.

import type { VisionConfig } from '../model-config.ts';

/**
 * Those of the largest image; null where each sees only those before it.
 * @param mostPatches that an image has
 */
export function wholeImageTokensOf(
  { wholeImageTokens, mergeSize }: VisionConfig,
  mostPatches = Number.POSITIVE_INFINITY,
): number | null {
  return wholeImageTokens && Math.min(wholeImageTokens, Math.floor(mostPatches / mergeSize ** 2));
}
