// Models that see images against what another program computed: the rows that they make of patches, and logits of prompts with them.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { ImageTile, PreparedImage } from '../../src/images/image-processor.ts';
import { loadModel } from '../../src/models/load-model.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { type Backend, openBackend } from '../helpers/backends.ts';
import { cosine, largestDifference } from '../helpers/compare.ts';
import { readGolden } from '../helpers/read-tensors.ts';
import { ModelSession } from './model-session.ts';

const FOLDER = fileURLToPath(new URL('../fixtures/vision', import.meta.url));
const MODELS = ['idefics3', 'smolvlm', 'mistral3'];
const PLACEHOLDER = 5;
const PATCH = 4;
const COLOURS: PreparedImage['colours'] = { factors: [2 / 255, 2 / 255, 2 / 255], offsets: [-1, -1, -1] };

const golden = z.object({
  cases: z.array(
    z.object({
      id: z.string(),
      input_ids: z.array(z.number()),
      tiles: z.array(z.tuple([z.number(), z.number()])),
    }),
  ),
});

function casesOf(name: string) {
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

describe.each(MODELS)('%s', (name) => {
  async function load(backend: Backend, dtype: 'float32' | 'bfloat16') {
    const ops = openBackend(backend);
    afterAll(() => ops.close());
    const model = await loadModel(openModelSource(`${FOLDER}/${name}`), ops, { dtype, maxModelLen: null });
    return { ops, model };
  }

  it.each(casesOf(name))('makes the rows of case $id of patches', async ({ tiles, rows }) => {
    for (const backend of ['reference', 'cpu'] as const) {
      const { model } = await load(backend, 'float32');
      const got = tiles.flatMap((tile) => [...model.imageEncoder!.encode(tile, COLOURS)]);
      expect(largestDifference(Float32Array.from(got), rows.values)).toBeLessThan(1e-4);
    }
    const { model } = await load('cpu', 'bfloat16');
    const got = tiles.flatMap((tile) => [...model.imageEncoder!.encode(tile, COLOURS)]);
    expect(cosine(Float32Array.from(got), rows.values)).toBeGreaterThan(0.999);
  });

  it.each(casesOf(name))('gives the logits of case $id', async ({ ids, places, rows, logits }) => {
    for (const backend of ['reference', 'cpu'] as const) {
      const { ops, model } = await load(backend, 'float32');
      const session = new ModelSession(ops, model, ids.length);
      const got = session.run(ids, logits.shape[0]!, { rows: places, values: rows.values });
      expect(largestDifference(got, logits.values)).toBeLessThan(1e-4);
    }
  });
});
