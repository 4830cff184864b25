// Images as Idefics3 and its kin see them, of which SmolVLM and Granite Docling are: square tiles, each as large as the encoder
// takes, then all of it as one tile more.
// Source: Laurençon et al., Building and better understanding vision-language models (https://arxiv.org/abs/2408.12637), and
// the processor of Hugging Face transformers.

import * as z from 'zod';
import { ModelLoadError } from '../errors.ts';
import { checkModelJson } from '../util/model-file.ts';
import { cutTiles } from './cut-tiles.ts';
import { decodeImage } from './decode-image.ts';
import { longestEdge } from './given-fields.ts';
import type { ImageProcessor, ReadImage } from './image-processor.ts';
import { type ImageSettings, readColours, resampling } from './image-settings.ts';
import type { Pixels } from './pixels.ts';
import { type Colours, prepareImage, wholeTile } from './prepare-image.ts';
import { type Filter, resize } from './resize.ts';

const IMAGE = '<image>';
const AROUND = '<fake_token_around_image>';
const WHOLE = '<global-img>';

/** No image is made larger than that, whatever its model says. */
const MAX_EDGE = 4096;

interface Idefics3Options {
  /** Of every image first, in pixels; null where images are not resized before they are cut. */
  readonly longestEdge: number | null;
  /** Of a tile, in pixels. What is behind its last whole patch is not seen. */
  readonly tileSize: number;
  readonly isSplit: boolean;
  readonly patchSize: number;
  readonly tokensPerTile: number;
  readonly filter: Filter;
  readonly colours: Colours;
}

interface Size {
  readonly width: number;
  readonly height: number;
}

export class Idefics3Processor implements ImageProcessor {
  readonly mark = IMAGE;
  readonly placeholder = IMAGE;
  readonly #options: Idefics3Options;

  constructor(options: Idefics3Options) {
    this.#options = options;
  }

  async read(file: Uint8Array): Promise<ReadImage> {
    const { longestEdge, tileSize, isSplit, patchSize, tokensPerTile, filter, colours } = this.#options;
    const pixels = await decodeImage(file);
    const fitted = longestEdge === null ? pixels : resizeTo(pixels, fitEdge(pixels, longestEdge), filter);
    const image = isSplit ? resizeTo(fitted, fitTiles(fitted, tileSize), filter) : fitted;
    const isOne = image.width <= tileSize && image.height <= tileSize;
    const parts = isSplit && !isOne ? cutTiles(image, tileSize, patchSize) : [];
    const whole = wholeTile(resize(image, tileSize, tileSize, filter), patchSize);
    const tiles = [...parts.flat(), whole];
    return {
      image: prepareImage(tiles, colours, tiles.length * tokensPerTile),
      text: textOf(parts.length, parts[0]?.length ?? 0, IMAGE.repeat(tokensPerTile)),
    };
  }
}

function resizeTo(image: Pixels, { width, height }: Size, filter: Filter): Pixels {
  return resize(image, width, height, filter);
}

/** The longer side becomes `edge`, the other one is made even. */
function fitEdge({ width, height }: Size, edge: number): Size {
  const ratio = width / height;
  if (width >= height) return bound({ width: edge, height: toEven(Math.trunc(edge / ratio)) });
  return bound({ width: toEven(Math.trunc(edge * ratio)), height: edge });
}

function toEven(length: number): number {
  return Math.max(length + (length % 2), 1);
}

function bound({ width, height }: Size): Size {
  const ratio = width / height;
  if (Math.max(width, height) <= MAX_EDGE) return { width, height };
  if (width >= height) return { width: MAX_EDGE, height: Math.max(Math.trunc(MAX_EDGE / ratio), 1) };
  return { width: Math.max(Math.trunc(MAX_EDGE * ratio), 1), height: MAX_EDGE };
}

/** Whole tiles: the longer side is rounded up, and the other one grows with it before it is. */
function fitTiles({ width, height }: Size, tileSize: number): Size {
  const ratio = width / height;
  const roundUp = (length: number): number => Math.ceil(Math.max(length, 1) / tileSize) * tileSize;
  if (width >= height) {
    const wide = roundUp(width);
    return { width: wide, height: roundUp(Math.trunc(wide / ratio)) };
  }
  const tall = roundUp(height);
  return { width: roundUp(Math.trunc(tall * ratio)), height: tall };
}

function textOf(rows: number, cols: number, tokens: string): string {
  const whole = `${AROUND}${WHOLE}${tokens}${AROUND}`;
  if (rows === 0) return whole;
  const lines = Array.from({ length: rows }, (_, row) =>
    Array.from({ length: cols }, (_, col) => `${AROUND}<row_${row + 1}_col_${col + 1}>${tokens}`).join(''),
  );
  return `${lines.join('\n')}\n\n${whole}`;
}

const length = z.int().positive();
const edge = z.object({ longest_edge: length });

const modelFields = z.object({
  vision_config: z.object({ image_size: length.default(224), patch_size: length.default(32) }),
  scale_factor: length.default(2),
});

const imageFields = z.object({
  do_resize: z.boolean().nullish(),
  size: edge.nullish(),
  do_image_splitting: z.boolean().nullish(),
  max_image_size: edge.nullish(),
  resample: resampling.nullish(),
});

const processorFields = z.object({ image_seq_len: length.nullish() });

/** Of a model whose files leave it out. */
const USUAL_TILE = 364;
const USUAL_TILES_ACROSS = 4;

/** @throws ModelLoadError where the files contradict each other, or say what is not supported; ConfigError as of `longestEdge`. */
export function loadIdefics3(settings: ImageSettings): Idefics3Processor {
  const { config, images, given } = settings;
  const model = checkModelJson(config.path, config.json, modelFields);
  const fields = checkModelJson(images.path, images.json, imageFields);
  const patchSize = model.vision_config.patch_size;
  const tileSize = fields.max_image_size?.longest_edge ?? USUAL_TILE;
  if (tileSize !== model.vision_config.image_size) {
    throw new ModelLoadError(
      `${images.path}: max_image_size.longest_edge is ${tileSize}, and image_size of vision_config in ${config.path} is ` +
        `${model.vision_config.image_size}: expected the same, for tiles that do not fill the encoder are not supported`,
    );
  }
  const edge = longestEdge(given, fields.size?.longest_edge ?? USUAL_TILES_ACROSS * USUAL_TILE);
  return new Idefics3Processor({
    longestEdge: fields.do_resize === false ? null : edge,
    tileSize,
    isSplit: fields.do_image_splitting ?? true,
    patchSize,
    tokensPerTile: countTokens(settings, Math.floor(tileSize / patchSize), model.scale_factor),
    filter: fields.resample ?? 'lanczos',
    colours: readColours(images, { mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5] }),
  });
}

/**
 * @param side patches of a tile in both directions
 * @param scale those that become one token, in both directions
 */
function countTokens({ config, processor }: ImageSettings, side: number, scale: number): number {
  const tokens = (side / scale) ** 2;
  if (side === 0 || side % scale !== 0) {
    throw new ModelLoadError(
      `${config.path}: image_size has ${side} patches (patch_size), expected a multiple of scale_factor, ${scale}`,
    );
  }
  const fields = processor && checkModelJson(processor.path, processor.json, processorFields);
  const stated = fields?.image_seq_len ?? tokens;
  if (stated === tokens) return tokens;
  throw new ModelLoadError(
    `${processor?.path}: image_seq_len is ${stated}, but by ${config.path} a tile has ${tokens} tokens; fetch the model again`,
  );
}
