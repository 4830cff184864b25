// What is loaded of a model that sees images, and what is said where parts of it are missing.

import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type LoadOptions, loadModel } from '../../src/models/load-model.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { DummySource } from '../../src/models/source/dummy-source.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { bytesToSee } from '../../src/runner/encoded-images.ts';
import { readStoredTensors, writeStoredTensors } from '../fixtures/stored-tensors.ts';
import { writeTinyVisionModel } from '../fixtures/tiny-vision-model.ts';
import { openBackend } from '../helpers/backends.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { FOLDER } from './vision-cases.ts';

const newFolder = temporaryFolders();

async function load(folder: string, options: Partial<LoadOptions> = {}) {
  const ops = openBackend('reference');
  const warnings: string[] = [];
  const onWarning = (message: string): void => void warnings.push(message);
  const common = { dtype: 'float32', maxModelLen: null, onWarning } as const;
  try {
    const { imageEncoder } = await loadModel(openModelSource(folder), ops, { ...common, ...options });
    return { sees: imageEncoder !== null, warnings };
  } finally {
    ops.close();
  }
}

/** A model without the tensors whose names have `part`. */
function modelWithout(part: RegExp): string {
  const folder = newFolder();
  writeTinyVisionModel(folder);
  const file = join(folder, 'model.safetensors');
  writeStoredTensors(
    file,
    readStoredTensors(file).filter(({ name }) => !part.test(name)),
  );
  return folder;
}

/** A copy of a model whose tensors have other names, and without those that have none. */
function renamedIn(model: string, nameOf: (name: string) => string | null): string {
  const folder = newFolder();
  const file = join(folder, 'model.safetensors');
  cpSync(`${FOLDER}/${model}`, folder, { recursive: true });
  const tensors = readStoredTensors(file).flatMap((tensor) => {
    const name = nameOf(tensor.name);
    return name === null ? [] : [{ ...tensor, name }];
  });
  writeStoredTensors(file, tensors);
  return folder;
}

describe.each(['gemma4', 'gemma4-small'])('of a %s', (model) => {
  it('all of it is used', async () => {
    expect(await load(`${FOLDER}/${model}`)).toEqual({ sees: true, warnings: [] });
  });

  it('the text is served where a release has left the rest out, with a warning', async () => {
    const { sees, warnings } = await load(renamedIn(model, (name) => (/vision/.test(name) ? null : name)));
    expect(sees).toBe(false);
    expect(warnings).toEqual([expect.stringMatching(/has no tensors of the vision_config in config\.json/)]);
  });

  it('bounds, or what standardises rows, may not be missing', async () => {
    const part = model === 'gemma4' ? /std_bias/ : /mlp\.up_proj\.output_max/;
    const folder = renamedIn(model, (name) => (part.test(name) ? null : name));
    await expect(load(folder)).rejects.toThrow(part);
  });

  it('what sees images is made up with the rest for measuring', async () => {
    const ops = openBackend('reference');
    const source = new DummySource(openModelSource(`${FOLDER}/${model}`));
    const options = { dtype: 'bfloat16', maxModelLen: null, mostPatches: 280 } as const;
    const { imageEncoder } = await loadModel(source, ops, options);
    const tile = imageEncoder!.largestTile;
    expect([tile.rows, tile.cols]).toEqual([16, 16]);
    const rows = imageEncoder!.encode(tile, { factors: [1, 1, 1], offsets: [0, 0, 0] });
    expect(rows.every(Number.isFinite)).toBe(true);
    ops.close();
  });
});

describe('of a Gemma 3', () => {
  const renamed = (nameOf: (name: string) => string | null): string => renamedIn('gemma3', nameOf);

  it('what sees images has the names of older releases, too, and is used up', async () => {
    expect(await load(renamed((name) => name))).toEqual({ sees: true, warnings: [] });
    const older = (name: string) =>
      name.replace(/^model\.language_model\./, 'language_model.model.').replace(/^model\./, '');
    expect(await load(renamed(older))).toEqual({ sees: true, warnings: [] });
  });

  it('the text is served where a release has left the rest out, with a warning', async () => {
    const { sees, warnings } = await load(renamed((name) => (/vision|projector/.test(name) ? null : name)));
    expect(sees).toBe(false);
    expect(warnings).toEqual([expect.stringMatching(/has no tensors of the vision_config in config\.json/)]);
  });
});

describe.each(['SmolVLM', 'Qwen3-VL'] as const)('of a %s', (family) => {
  const whole = newFolder();
  writeTinyVisionModel(whole, { family });

  it('nothing is left unsaid: all of it is used', async () => {
    expect(await load(whole)).toEqual({ sees: true, warnings: [] });
  });

  it.each<[string, Partial<LoadOptions>]>([
    ['where none come', { seesImages: false }],
    ['where it makes embeddings', { choice: { runner: 'pooling', convert: 'embed' } }],
    ['in a later stage', { layers: { first: 1, end: 3 } }],
  ])('what sees them is not loaded %s, without a word', async (_, options) => {
    expect(await load(whole, options)).toEqual({ sees: false, warnings: [] });
  });

  it('what sees them is as large as the pictures that may come', async () => {
    const encoderFor = async (mostPatches?: number) => {
      const ops = openBackend('reference');
      const options = { dtype: 'float32', maxModelLen: null, mostPatches } as const;
      const { imageEncoder } = await loadModel(openModelSource(whole), ops, options);
      ops.close();
      return imageEncoder!;
    };
    const [usual, small] = [await encoderFor(), await encoderFor(16)];
    const { rows, cols } = small.largestTile;
    expect([rows, cols]).toEqual([4, 4]);
    const { rows: mostRows, cols: mostCols } = usual.largestTile;
    expect(usual.peakBytes / small.peakBytes).toBe((mostRows * mostCols) / 16);
    expect(usual.mostRowBytes / small.mostRowBytes).toBe((mostRows * mostCols) / 16);
  });

  it('what is kept of the largest picture is counted', async () => {
    const ops = openBackend('reference');
    const options = { dtype: 'float32', maxModelLen: null, mostPatches: 16 } as const;
    const { imageEncoder } = await loadModel(openModelSource(whole), ops, options);
    const encoder = imageEncoder!;
    const rows = encoder.encode(encoder.largestTile, { factors: [1, 1, 1], offsets: [0, 0, 0] });
    ops.close();
    expect(encoder.mostRowBytes).toBe(rows.byteLength);
    expect(bytesToSee(encoder)).toBeGreaterThan(encoder.peakBytes + rows.byteLength);
    expect(bytesToSee(null)).toBe(0);
  });

  it('what sees them is made up with the rest for measuring', async () => {
    const ops = openBackend('reference');
    const source = new DummySource(openModelSource(whole));
    const { imageEncoder } = await loadModel(source, ops, { dtype: 'bfloat16', maxModelLen: null });
    const side = family === 'SmolVLM' ? imageEncoder!.largestTile.rows : 6;
    const tile = { rows: side, cols: side, patches: new Uint8Array(side ** 2 * 3 * 4 ** 2) };
    const rows = imageEncoder!.encode(tile, { factors: [1, 1, 1], offsets: [0, 0, 0] });
    expect(rows.every(Number.isFinite)).toBe(true);
    ops.close();
  });
});

describe('of a model that sees images', () => {
  it('the text is served where a release has left the rest out, with a warning', async () => {
    const { sees, warnings } = await load(modelWithout(/vision_model|connector/));
    expect(sees).toBe(false);
    expect(warnings).toEqual([
      expect.stringMatching(
        /: the checkpoint has no tensors of the vision_config in config\.json: the model reads/,
      ),
    ]);
  });

  it('a part of the rest is refused', async () => {
    await expect(load(modelWithout(/connector/))).rejects.toThrow(
      /modality_projection\.proj\.weight \[64, 128\] is missing/,
    );
  });

  it('tensors that are not used are named', async () => {
    const folder = modelWithout(/nothing/);
    const file = join(folder, 'model.safetensors');
    const extra = {
      name: 'model.vision_model.head.bias',
      shape: [2],
      dtype: 'f32',
      bytes: new Uint8Array(8),
    } as const;
    writeStoredTensors(file, [...readStoredTensors(file), extra]);
    expect((await load(folder)).warnings).toEqual([
      expect.stringMatching(/not used: model\.vision_model\.head/),
    ]);
  });
});

it.each([
  ['smolvlm', 2],
  // All but one of its layers have windows.
  ['qwen2.5-vl', 1],
])(
  'what a patch of a %s is multiplied with are all weights, and other patches in %i layers',
  async (name, numWhole) => {
    const ops = openBackend('reference');
    const source = openModelSource(`${FOLDER}/${name}`);
    const { imageEncoder } = await loadModel(source, ops, { dtype: 'float32', maxModelLen: null });
    const { vision } = readModelConfig(source);
    ops.close();
    const { numLayers, hiddenSize } = vision!.layers;
    expect(imageEncoder!.numLayers).toBe(numLayers);
    // Of each layer those of attention, in four bytes a number, and more.
    expect(imageEncoder!.multiplied.ofPatch).toBeGreaterThan(numLayers * 4 * hiddenSize ** 2 * 4);
    expect(imageEncoder!.multiplied.ofPair).toBe(numWhole * 2 * hiddenSize * 4);
  },
);
