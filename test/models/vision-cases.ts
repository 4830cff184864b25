// What another program computed with models that see images, of prompts with tiles that follow from their place.

import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import type { ImageTile, PreparedImage, PromptImage } from '../../src/images/image-processor.ts';
import { readGolden } from '../helpers/read-tensors.ts';

export const FOLDER = fileURLToPath(new URL('../fixtures/vision', import.meta.url));
/** To which tokens of images lie in a plane. */
const IN_PLANE = ['qwen2-vl', 'qwen2.5-vl', 'qwen3-vl', 'qwen3.5'];
export const MODELS = [
  'idefics3',
  'smolvlm',
  'lfm2-vl',
  'internvl',
  'internvl-large',
  'mistral3',
  'gemma3',
  'gemma4',
  'gemma4-small',
  ...IN_PLANE,
];
const PLACEHOLDER = 5;
/** Of an image of Gemma 4. */
export const MOST_TOKENS = 70;
const PATCH = 4;

/** A copy of a model in `folder` that an engine takes images for. */
export function copyForEngine(name: string, folder: string): void {
  cpSync(`${FOLDER}/${name}`, folder, { recursive: true });
  const sizes = { max_image_size: { longest_edge: 16 }, max_soft_tokens: MOST_TOKENS };
  writeFileSync(join(folder, 'preprocessor_config.json'), JSON.stringify(sizes));
}

export const COLOURS: PreparedImage['colours'] = {
  factors: [2 / 255, 2 / 255, 2 / 255],
  offsets: [-1, -1, -1],
};

const golden = z.object({
  cases: z.array(
    z.object({
      id: z.string(),
      input_ids: z.array(z.number()),
      greedy_ids: z.array(z.number()),
      tiles: z.array(z.tuple([z.number(), z.number()])),
    }),
  ),
});

export function casesOf(name: string) {
  const { cases } = golden.parse(JSON.parse(readFileSync(`${FOLDER}/${name}/golden.json`, 'utf8')));
  const read = (tensor: string) => readGolden(`${FOLDER}/${name}/golden.safetensors`, tensor);
  return cases.map(({ id, input_ids: ids, greedy_ids: greedy, tiles: sizes }) => {
    const places = ids.flatMap((token, index) => (token === PLACEHOLDER ? [index] : []));
    const tiles = tilesOf(sizes);
    const images = imagesOf(tiles, places, IN_PLANE.includes(name));
    return { id, ids, greedy, places, tiles, images, rows: read(`${id}.rows`), logits: read(`${id}.logits`) };
  });
}

/** Each tile is an image, of which four patches become a token. */
function imagesOf(tiles: readonly ImageTile[], places: readonly number[], isInPlane: boolean): PromptImage[] {
  let next = 0;
  return tiles.map((tile) => {
    const grid = { rows: tile.rows / 2, cols: tile.cols / 2 };
    const numTokens = grid.rows * grid.cols;
    next += numTokens;
    const image = { hash: `${next} ${tile.cols}`, tiles: [tile], colours: COLOURS, numTokens };
    return {
      image: isInPlane ? { ...image, grid } : image,
      positions: places.slice(next - numTokens, next),
    };
  });
}

/** As tools/goldens/vision.py fills them. */
function tilesOf(sizes: readonly (readonly [rows: number, cols: number])[]): ImageTile[] {
  let next = 0;
  return sizes.map(([rows, cols]) => {
    const length = rows * cols * 3 * PATCH ** 2;
    const first = next;
    next += length;
    const byteOf = (_: unknown, i: number) => 37 * (first + i) + 11 * ((first + i) >> 5);
    return { rows, cols, patches: Uint8Array.from({ length }, byteOf) };
  });
}
