// Models that see images in two GGUF files each, in the names of the format's own package (tools/goldens/gguf_encoders.py), against what
// another program computed with the folders that they are made of.

import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/config/option-kinds.ts';
import { loadImageProcessor } from '../../src/images/load-image-processor.ts';
import { loadModel } from '../../src/models/load-model.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { type ModelSource, openModelSource } from '../../src/models/source/model-source.ts';
import { OverriddenSource } from '../../src/models/source/overridden-source.ts';
import { tinyPicture } from '../fixtures/tiny-vision-model.ts';
import { type Backend, openBackend } from '../helpers/backends.ts';
import { largestDifference } from '../helpers/compare.ts';
import { ModelSession } from './model-session.ts';
import { COLOURS, casesOf, FOLDER, MOST_TOKENS } from './vision-cases.ts';

const FILES = fileURLToPath(new URL('../fixtures/gguf-vision', import.meta.url));

/** What the models that these are made of have, and no release: converters do not write it. */
const UNUSUAL: Readonly<Record<string, JsonObject>> = {
  'qwen3.5': { layer_types: ['linear_attention', 'full_attention', 'full_attention'] },
  gemma3: {
    query_pre_attn_scalar: 16,
    layer_types: ['sliding_attention', 'full_attention', 'sliding_attention'],
  },
};

function sourceOf(name: string): ModelSource {
  return new OverriddenSource(openModelSource(`${FILES}/${name}/model.gguf`), {
    text_config: UNUSUAL[name] ?? {},
  });
}

describe.each([
  'qwen2-vl',
  'qwen2.5-vl',
  'qwen3-vl',
  'qwen3.5',
  'gemma3',
  'gemma4',
  'gemma4-small',
  'idefics3',
  'lfm2-vl',
  'internvl',
  'internvl-large',
  'mistral3',
])('%s', (name) => {
  async function load(backend: Backend) {
    const ops = openBackend(backend);
    afterAll(() => ops.close());
    const warnings: string[] = [];
    const onWarning = (message: string) => void warnings.push(message);
    const options = { dtype: 'float32', maxModelLen: null, onWarning } as const;
    const model = await loadModel(sourceOf(name), ops, options);
    expect(warnings).toEqual([]);
    return { ops, model };
  }

  it('has the vision_config of the folder', () => {
    const [own, original] = [sourceOf(name), openModelSource(`${FOLDER}/${name}`)].map((source) =>
      readModelConfig(source),
    );
    const { layers, ...vision } = original!.vision!;
    // Which numbers are stored how is in the file tensor by tensor.
    expect(own?.vision).toEqual({ ...vision, layers: { ...layers, checkpointDType: null } });
    expect(own?.ropeSections).toEqual(original?.ropeSections);
  });

  it.each(casesOf(name))('makes the rows of case $id of patches', async ({ tiles, rows }) => {
    for (const backend of ['reference', 'cpu'] as const) {
      const { model } = await load(backend);
      const got = tiles.flatMap((tile) => [...model.imageEncoder!.encode(tile, COLOURS)]);
      expect(largestDifference(Float32Array.from(got), rows.values)).toBeLessThan(1e-4);
    }
  });

  it.each(casesOf(name))('gives the logits of case $id', async ({ ids, places, images, rows, logits }) => {
    const { ops, model } = await load('reference');
    const session = new ModelSession(ops, model, ids.length);
    const got = session.run(ids, logits.shape[0]!, { rows: places, values: rows.values, images });
    expect(largestDifference(got, logits.values)).toBeLessThan(1e-4);
  });
});

describe('a picture for a model in GGUF', () => {
  it.each([
    ['qwen2-vl', 16_384, ['50x76']],
    ['qwen2.5-vl', 16_384, ['50x76']],
    ['qwen3-vl', 16_384, ['54x80']],
    ['qwen3.5', 16_384, ['54x80']],
    ['gemma3', undefined, ['8x8']],
    ['gemma4', 280, ['12x20']],
    ['gemma4-small', 280, ['12x20']],
    ['idefics3', undefined, new Array<string>(7).fill('4x4')],
    ['lfm2-vl', 16_384, [...new Array<string>(6).fill('128x128'), '26x38']],
    ['mistral3', undefined, ['6x8']],
  ])('is seen by %s as the file says', async (name, mostPatches, tiles) => {
    // The files of Gemma 4 do not say how many tokens an image has; these ones have few positions.
    const given = name.startsWith('gemma4') ? { max_soft_tokens: MOST_TOKENS } : {};
    const processor = loadImageProcessor(sourceOf(name), given)!;
    const { image } = await processor.read(await tinyPicture(1, 300, 200));
    expect(image.tiles.map(({ rows, cols }) => `${rows}x${cols}`)).toEqual(tiles);
    expect(image.colours).toEqual(COLOURS);
    expect(processor.mostPatches).toBe(mostPatches);
  });
});
