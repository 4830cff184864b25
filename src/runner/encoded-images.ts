// What the encoder makes of images: the rows that stand for their tokens in a step. A tile is seen before its first token is computed, by
// several steps where they plan so, and what came of it is kept for the chunks of the prompt that follow, and for other prompts with the
// same image. What is not there when a token of it is computed is seen then.

import type { PreparedImage, PromptImage } from '../images/image-processor.ts';
import type { ImageRows } from '../models/model.ts';
import type { ImageEncoder, TileSight } from '../models/vision/image-encoder.ts';
import type { ScheduledStep, TileWork } from '../scheduler/scheduled-step.ts';

/** Of what is kept for others: some thousand rows. */
const MAX_BYTES = 64 * 2 ** 20;
/** What is kept for tokens to come may be more by so many of the largest tile. */
const MAX_UNUSED_TILES = 2;

/** Where a token of an image is. */
interface ImageToken {
  readonly row: number;
  readonly image: PreparedImage;
  /** Among the tokens of the image. */
  readonly index: number;
}

interface KeptTile {
  readonly rows: Float32Array;
  /** Whether the last of its tokens has been computed, of some prompt. */
  isUsedUp: boolean;
}

export class EncodedImages {
  readonly #encoder: ImageEncoder;
  readonly #maxBytes: number;
  /** By hash of the image and number of the tile, the one that was used last at the end. */
  readonly #kept = new Map<string, KeptTile>();
  #keptBytes = 0;
  /** The tile that is being seen; null where none is. */
  #begun: { readonly key: string; readonly sight: TileSight } | null = null;

  /** @param maxBytes of what is kept for others */
  constructor(encoder: ImageEncoder, maxBytes = MAX_BYTES) {
    this.#encoder = encoder;
    this.#maxBytes = maxBytes;
  }

  /** What was begun of another tile is given up. */
  see(work: readonly TileWork[]): void {
    for (const { image, tile, numLayers } of work) this.#see(image, tile, numLayers);
  }

  #see(image: PreparedImage, number: number, numLayers: number): KeptTile | null {
    const key = keyOf(image, number);
    const kept = this.#kept.get(key);
    if (kept !== undefined) return kept;
    const begun =
      this.#begun?.key === key ? this.#begun.sight : this.#encoder.begin(image.tiles[number]!, image.colours);
    this.#begun = { key, sight: begun };
    const rows = this.#encoder.see(begun, numLayers);
    if (rows === null) return null;
    this.#begun = null;
    return this.#keep(key, { rows, isUsedUp: false });
  }

  /** Undefined where the step computes no token of an image. Waits for the encoder. */
  rowsOf({ sequences }: ScheduledStep, queryStarts: Int32Array): ImageRows | undefined {
    const tokens = sequences.flatMap(({ images = [], firstPosition, tokenIds }, index) =>
      images.flatMap((image) => tokensAmong(image, firstPosition, tokenIds.length, queryStarts[index]!)),
    );
    if (tokens.length === 0) return undefined;
    const values = tokens.map(({ image, index }) => this.#rowOf(image, index));
    const hidden = values[0]!.length;
    const all = new Float32Array(values.length * hidden);
    for (const [index, row] of values.entries()) all.set(row, index * hidden);
    return { rows: tokens.map(({ row }) => row), values: all };
  }

  /** What stands for token `index` of an image. */
  #rowOf(image: PreparedImage, index: number): Float32Array {
    let first = 0;
    for (const [number, tile] of image.tiles.entries()) {
      const count = this.#encoder.numRows(tile);
      if (index < first + count) {
        const kept = this.#use(image, number);
        if (index === first + count - 1) kept.isUsedUp = true;
        const { rows } = kept;
        const hidden = rows.length / count;
        return rows.subarray((index - first) * hidden, (index - first + 1) * hidden);
      }
      first += count;
    }
    throw new Error(`an image has ${first} tokens, not ${index + 1}`);
  }

  #use(image: PreparedImage, number: number): KeptTile {
    const tile = this.#see(image, number, this.#encoder.numLayers)!;
    const key = keyOf(image, number);
    this.#kept.delete(key);
    this.#kept.set(key, tile);
    return tile;
  }

  #keep(key: string, tile: KeptTile): KeptTile {
    this.#kept.set(key, tile);
    this.#keptBytes += tile.rows.byteLength;
    this.#forgetOldest(this.#maxBytes, ({ isUsedUp }) => isUsedUp);
    // Those whose requests have been cancelled are never used up.
    this.#forgetOldest(this.#maxBytes + unusedBytes(this.#encoder), (other) => other !== tile);
    return tile;
  }

  #forgetOldest(maxBytes: number, mayGo: (tile: KeptTile) => boolean): void {
    for (const [key, tile] of this.#kept) {
      if (this.#keptBytes <= maxBytes) return;
      if (!mayGo(tile)) continue;
      this.#kept.delete(key);
      this.#keptBytes -= tile.rows.byteLength;
    }
  }
}

/** About what is taken to see images, and to keep what was seen until it is used; nothing without an encoder. */
export function bytesToSee(encoder: ImageEncoder | null): number {
  return encoder === null ? 0 : encoder.peakBytes + MAX_BYTES + unusedBytes(encoder);
}

function unusedBytes({ mostRowBytes }: ImageEncoder): number {
  return MAX_UNUSED_TILES * mostRowBytes;
}

function keyOf({ hash }: PreparedImage, tile: number): string {
  return `${hash} ${tile}`;
}

/** @param firstRow of the sequence in the step */
function tokensAmong(
  { image, positions }: PromptImage,
  firstPosition: number,
  numTokens: number,
  firstRow: number,
): ImageToken[] {
  return positions.flatMap((position, index) => {
    const place = position - firstPosition;
    return place >= 0 && place < numTokens ? [{ row: firstRow + place, image, index }] : [];
  });
}
