// Where the tokens of a sequence are for the rotation of queries and keys, in models that turn them by line and column: those of an image
// lie in a plane, all at the position of its first one, and text goes on behind its longer side. Source: Wang et al., "Qwen2-VL", 2024.

import { lagBehind, type PromptImage } from '../images/image-processor.ts';
import type { ScheduledSequence } from '../scheduler/scheduled-step.ts';

/** One entry a token each: see `StepArrays`. */
export interface RopePlaces {
  readonly positions: readonly number[];
  readonly lines: readonly number[];
  readonly columns: readonly number[];
}

/** Undefined where all tokens are where they stand in the sequence, whichever way they turn. */
export function ropePlacesOf(sequence: PlacedTokens): RopePlaces | undefined {
  const { firstPosition, numTokens, images = [], positionLag = 0 } = sequence;
  const inPlane = images.filter(({ image }) => image.grid !== undefined);
  if (positionLag === 0 && inPlane.length === 0) return undefined;
  const places = Array.from({ length: numTokens }, (_, index) =>
    placeOf(firstPosition + index, inPlane, positionLag),
  );
  return {
    positions: places.map(({ position }) => position),
    lines: places.map(({ line }) => line),
    columns: places.map(({ column }) => column),
  };
}

interface PlacedTokens extends Pick<ScheduledSequence, 'firstPosition' | 'images' | 'positionLag'> {
  readonly numTokens: number;
}

/** @param lag of the images before `images` */
function placeOf(index: number, images: readonly PromptImage[], lag: number) {
  let position = index - lag;
  for (const { image, positions } of images) {
    const inImage = index - positions[0]!;
    if (inImage < 0) break;
    if (inImage < image.numTokens) {
      const first = position - inImage;
      const { cols } = image.grid!;
      return { position: first, line: first + Math.floor(inImage / cols), column: first + (inImage % cols) };
    }
    position -= lagBehind(image);
  }
  return { position, line: position, column: position };
}
