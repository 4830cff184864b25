// The images of a request among its tokens, and how far the encoder has seen them.

import { lagBehind, type PreparedImage, type PromptImage, tokensOfTiles } from '../images/image-processor.ts';
import { type Range, rangesOf } from '../util/ranges.ts';

/** A tile of an image whose tokens are in a prompt. */
export interface PlacedTile {
  readonly image: PreparedImage;
  /** Among the tiles of the image. */
  readonly number: number;
  readonly numPatches: number;
  /** Position of its first token. */
  readonly first: number;
  /** Behind its last one. */
  readonly end: number;
  /** Layers of the encoder that it has been through, or will have been with the steps that are planned. */
  numLayersSeen: number;
}

export class RequestImages {
  readonly #images: readonly PromptImage[];
  /** In the order of positions. */
  readonly #tiles: readonly PlacedTile[];
  /** Where tokens of images follow each other, in the order of positions. */
  readonly #ranges: readonly Range[];

  constructor(images: readonly PromptImage[]) {
    this.#images = images;
    this.#tiles = images.flatMap(placeTiles);
    this.#ranges = images.flatMap(({ positions }) => rangesOf(positions));
  }

  /** The first tile with tokens from `position` on that has not been through `numLayers` layers; null where there is none. */
  unseenTile(position: number, numLayers: number): PlacedTile | null {
    return this.#tiles.find(({ end, numLayersSeen }) => end > position && numLayersSeen < numLayers) ?? null;
  }

  /** The request begins again: what was seen of its images may have been forgotten since. */
  forgetSeen(): void {
    for (const tile of this.#tiles) tile.numLayersSeen = 0;
  }

  /** The last position up to `end`, and not before `first`, that is inside no image. */
  endBetween(first: number, end: number): number {
    const cut = this.#ranges.find((range) => range.first < end && end < range.end);
    return cut === undefined ? end : Math.max(first, cut.first);
  }

  /** Tokens of images that follow each other, and of which some are from `first` up to before `end`. */
  rangesAmong(first: number, end: number): readonly Range[] {
    return this.#ranges.filter((range) => range.first < end && range.end > first);
  }

  /** Those with tokens from `first` up to before `end`. */
  among(first: number, end: number): readonly PromptImage[] {
    return this.#images.filter(({ positions }) => positions[0]! < end && positions.at(-1)! >= first);
  }

  /** See `positionLag` of `ScheduledSequence`. */
  positionLagAt(position: number): number {
    return this.#images.reduce(
      (sum, { image, positions }) => (positions.at(-1)! < position ? sum + lagBehind(image) : sum),
      0,
    );
  }
}

function placeTiles({ image, positions }: PromptImage): PlacedTile[] {
  let next = 0;
  return tokensOfTiles(image).map((numTokens, number) => {
    const first = positions[next]!;
    next += numTokens;
    const { rows, cols } = image.tiles[number]!;
    return { image, number, numPatches: rows * cols, first, end: positions[next - 1]! + 1, numLayersSeen: 0 };
  });
}
