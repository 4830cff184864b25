// Models that see images against what another program computed: the rows that they make of patches, and logits of prompts with them.

import { afterAll, describe, expect, it } from 'vitest';
import { loadModel } from '../../src/models/load-model.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { type Backend, openBackend } from '../helpers/backends.ts';
import { cosine, largestDifference } from '../helpers/compare.ts';
import { ModelSession } from './model-session.ts';
import { COLOURS, casesOf, FOLDER, MODELS } from './vision-cases.ts';

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

  it('makes the same of a tile that it sees layer by layer, with another one in between', async () => {
    const { model } = await load('cpu', 'bfloat16');
    const encoder = model.imageEncoder!;
    const tiles = casesOf(name).flatMap((one) => one.tiles);
    const [tile, other] = [tiles[0]!, tiles.at(-1)!];
    const expected = encoder.encode(tile, COLOURS);
    const sight = encoder.begin(tile, COLOURS);
    for (let layer = 1; layer < encoder.numLayers; layer++) {
      expect(encoder.see(sight, 1)).toBeNull();
      encoder.encode(other, COLOURS);
    }
    expect(encoder.see(sight, 1)).toEqual(expected);
  });

  it.each(casesOf(name))('gives the logits of case $id', async ({ ids, places, images, rows, logits }) => {
    for (const backend of ['reference', 'cpu'] as const) {
      const { ops, model } = await load(backend, 'float32');
      const session = new ModelSession(ops, model, ids.length);
      const got = session.run(ids, logits.shape[0]!, { rows: places, values: rows.values, images });
      expect(largestDifference(got, logits.values)).toBeLessThan(1e-4);
    }
  });
});
