// What another program computed with models that see images, of prompts with tiles that follow from their place.

import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import type { ImageTile, PreparedImage } from '../../src/images/image-processor.ts';
import { readGolden } from '../helpers/read-tensors.ts';

export const FOLDER = fileURLToPath(new URL('../fixtures/vision', import.meta.url));
export const MODELS = ['idefics3', 'smolvlm', 'mistral3', 'gemma3'];
const PLACEHOLDER = 5;
const PATCH = 4;
const configFile = z.looseObject({ architectures: z.array(z.string()) });

/** A copy of a model in `folder` that an engine takes images for. What makes them ready is that of another model: nothing is read by it. */
export function copyForEngine(name: string, folder: string): void {
  cpSync(`${FOLDER}/${name}`, folder, { recursive: true });
  writeFileSync(join(folder, 'preprocessor_config.json'), '{}');
  const path = join(folder, 'config.json');
  const config = configFile.parse(JSON.parse(readFileSync(path, 'utf8')));
  const architectures = [...config.architectures, 'SmolVLMForConditionalGeneration'];
  writeFileSync(path, JSON.stringify({ ...config, architectures }));
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
      tiles: z.array(z.tuple([z.number(), z.number()])),
    }),
  ),
});

export function casesOf(name: string) {
  const { cases } = golden.parse(JSON.parse(readFileSync(`${FOLDER}/${name}/golden.json`, 'utf8')));
  const read = (tensor: string) => readGolden(`${FOLDER}/${name}/golden.safetensors`, tensor);
  return cases.map(({ id, input_ids: ids, tiles: sizes }) => {
    const places = ids.flatMap((token, index) => (token === PLACEHOLDER ? [index] : []));
    return { id, ids, places, tiles: tilesOf(sizes), rows: read(`${id}.rows`), logits: read(`${id}.logits`) };
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
