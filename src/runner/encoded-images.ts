// What the encoder makes of images: the rows that stand for their tokens in a step. A tile is seen when its first token is computed, and
// what came of it is kept for the chunks of the prompt that follow, and for other prompts with the same image.

import type { PreparedImage, PromptImage } from '../images/image-processor.ts';
import type { ImageRows } from '../models/model.ts';
import type { ImageEncoder } from '../models/vision/image-encoder.ts';
import type { ScheduledStep } from '../scheduler/scheduled-step.ts';

/** Of what is kept: some thousand rows. */
const MAX_BYTES = 64 * 2 ** 20;

/** Where a token of an image is. */
interface ImageToken {
  readonly row: number;
  readonly image: PreparedImage;
  /** Among the tokens of the image. */
  readonly index: number;
}

export class EncodedImages {
  readonly #encoder: ImageEncoder;
  /** By hash of the image and number of the tile, the one that was used last at the end. */
  readonly #kept = new Map<string, Float32Array>();
  #keptBytes = 0;

  constructor(encoder: ImageEncoder) {
    this.#encoder = encoder;
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
        const rows = this.#rowsOfTile(image, number);
        const hidden = rows.length / count;
        return rows.subarray((index - first) * hidden, (index - first + 1) * hidden);
      }
      first += count;
    }
    throw new Error(`an image has ${first} tokens, not ${index + 1}`);
  }

  #rowsOfTile({ hash, tiles, colours }: PreparedImage, number: number): Float32Array {
    const key = `${hash} ${number}`;
    const kept = this.#kept.get(key);
    const rows = kept ?? this.#encoder.encode(tiles[number]!, colours);
    if (kept === undefined) this.#keptBytes += rows.byteLength;
    this.#kept.delete(key);
    this.#kept.set(key, rows);
    this.#forgetOldest(key);
    return rows;
  }

  #forgetOldest(newest: string): void {
    for (const [key, rows] of this.#kept) {
      if (this.#keptBytes <= MAX_BYTES || key === newest) return;
      this.#kept.delete(key);
      this.#keptBytes -= rows.byteLength;
    }
  }
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
