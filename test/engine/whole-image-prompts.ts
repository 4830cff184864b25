// Prompts with images for the tiny Gemma 3 of the goldens, whose images are seen whole.

import { imageKeys } from '../../src/engine/image-inputs.ts';
import type { NewRequest } from '../../src/scheduler/request.ts';
import { type NewRequestParts, newRequest } from '../helpers/new-request.ts';
import { COLOURS, casesOf } from '../models/vision-cases.ts';

export const IMAGE_TOKENS = 16;
const PLACEHOLDER = 5;
const { tiles } = casesOf('gemma3').find(({ id }) => id === 'several')!;

/** Where images are in a prompt, and which. */
export type Places = readonly (readonly [at: number, tile: number])[];

/** Prompts differ in their images alone, and in their lengths. */
export function requestOf(
  id: number,
  length: number,
  places: Places,
  parts: NewRequestParts = {},
): NewRequest {
  const promptTokenIds = Array.from({ length }, (_, i) => 6 + ((i * 7 + (i >> 3)) % 90));
  const images = places.map(([at, tile]) => {
    const positions = Array.from({ length: IMAGE_TOKENS }, (_, i) => at + i);
    promptTokenIds.fill(PLACEHOLDER, at, at + IMAGE_TOKENS);
    const image = { hash: `${tile}`, tiles: [tiles[tile]!], colours: COLOURS, numTokens: IMAGE_TOKENS };
    return { image, positions };
  });
  const extraKeys = [...(parts.extraKeys ?? []), ...imageKeys(images)];
  return newRequest({ id, ...parts, promptTokenIds, images, extraKeys });
}
