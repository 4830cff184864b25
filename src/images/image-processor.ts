// What becomes of an image before the model sees it: the text that stands for it in the prompt, and the patches that the encoder makes rows of.
// How large an image is made and how it is cut is the model's own: each kind of model has a processor.

/**
 * Of an image whose size the model does not bound, whatever files and options say. Published files allow four times as many and more, which
 * take minutes on a processor, for each patch looks at all others; and the encoder has memory for that many, wanted or not.
 */
export const MOST_PATCHES = 16_384;

/** A picture, or a part of one, that the encoder sees by itself. Plain data: it goes to other threads, which share its patches. */
export interface ImageTile {
  /** Patches below each other, and beside each other. */
  readonly rows: number;
  readonly cols: number;
  /** [rows * cols, 3 * patchSize * patchSize] line by line: of each patch its red, its green and its blue, each line by line. */
  readonly patches: Uint8Array;
}

/** An image as the engine gets it. Plain data. */
export interface PreparedImage {
  /** Of the patches, their form and `colours`: images with the same hash are the same to the model. */
  readonly hash: string;
  readonly tiles: readonly ImageTile[];
  /** The number that a model gets for a byte of colour c is byte * factors[c] + offsets[c]. */
  readonly colours: { readonly factors: readonly number[]; readonly offsets: readonly number[] };
  /** Tokens that stand for it in the prompt: the encoder makes a row for each, tile after tile. */
  readonly numTokens: number;
  /** Tokens below each other and beside each other, of models to which they lie in a plane; left out, one comes after the other. */
  readonly grid?: { readonly rows: number; readonly cols: number };
}

/** By how much positions behind an image are less than the number of tokens before them: in a plane it is as long as its longer side. */
export function lagBehind({ numTokens, grid }: PreparedImage): number {
  return grid === undefined ? 0 : numTokens - Math.max(grid.rows, grid.cols);
}

/** Memory that its patches take. */
export function numBytesOf({ tiles }: PreparedImage): number {
  return tiles.reduce((sum, { patches }) => sum + patches.byteLength, 0);
}

/** [tiles] Tokens of each: as many patches become one in all of them. */
export function tokensOfTiles({ tiles, numTokens }: PreparedImage): readonly number[] {
  const counts = tiles.map(({ rows, cols }) => rows * cols);
  const numPatches = counts.reduce((sum, count) => sum + count, 0);
  return counts.map((count) => (count * numTokens) / numPatches);
}

/** An image among the tokens of a prompt. Plain data. */
export interface PromptImage {
  readonly image: PreparedImage;
  /** [numTokens] where its tokens are in the prompt, one after the other. */
  readonly positions: readonly number[];
}

/** An image, and what it is in the text of a prompt. */
export interface ReadImage {
  readonly image: PreparedImage;
  /** In the place of `mark`: placeholders, one for each token of the image, and what the model expects around them. */
  readonly text: string;
}

export interface ImageProcessor {
  /** What chat templates write where an image is. */
  readonly mark: string;
  /** Whether it may be a line of a text, too, where a template writes no images; left out, the model wants more around it. */
  readonly isLineOfText?: boolean;
  /** The special token that stands for one row of an image. */
  readonly placeholder: string;
  /** Patches of a tile at most, where that is less than the encoder could see; left out, as many as that. */
  readonly mostPatches?: number;
  /**
   * @param file in any of the formats of `decode-image.ts`.
   * @throws InvalidRequestError where it is no image, or a larger one than is taken.
   */
  read(file: Uint8Array): Promise<ReadImage>;
}
