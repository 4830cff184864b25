// Models whose weights are -1, 0 and 1: the logits of the original, and the bits of the same numbers in int8.

import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { ModelLoadError } from '../../src/errors.ts';
import { loadModel } from '../../src/models/load-model.ts';
import type { Model } from '../../src/models/model.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import type { Ops } from '../../src/ops/ops.ts';
import { type StoredTensor, W8A8 } from '../fixtures/compressed-model.ts';
import { readStoredTensors, writeStoredTensors } from '../fixtures/stored-tensors.ts';
import { availableBackends, openBackend } from '../helpers/backends.ts';
import { cosine } from '../helpers/compare.ts';
import { needsNative } from '../helpers/needs.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { goldenInCodes } from './golden-cases.ts';
import { ModelSession } from './model-session.ts';
import { SharedModel } from './shared-model.ts';

const newFolder = temporaryFolders();
const { folder: golden, cases } = goldenInCodes('ternary');
const { ids } = cases.at(-1)!;

function load(folder: string, ops: Ops): Promise<Model> {
  return loadModel(openModelSource(folder), ops, { dtype: 'auto', maxModelLen: null });
}

/** The golden model with other tensors, and other fields of quantization_config. */
function changed(change: (tensor: StoredTensor) => StoredTensor[], quantization: object = {}): string {
  const folder = newFolder();
  cpSync(golden, folder, { recursive: true });
  const config = JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8'));
  const fields = { ...config, quantization_config: { ...config.quantization_config, ...quantization } };
  writeFileSync(join(folder, 'config.json'), JSON.stringify(fields));
  const path = join(folder, 'model.safetensors');
  writeStoredTensors(path, readStoredTensors(path).flatMap(change));
  return folder;
}

/** Bytes with numbers of four rows -> a byte a number. */
function widened({ name, shape: [rows = 0, k = 0], bytes }: StoredTensor): StoredTensor {
  const wide = new Uint8Array(4 * rows * k);
  for (const [i, byte] of bytes.entries()) {
    for (let plane = 0; plane < 4; plane++) wide[plane * rows * k + i] = ((byte >> (2 * plane)) & 3) - 1;
  }
  return { name, dtype: 'i8', shape: [4 * rows, k], bytes: wide };
}

describe.each(availableBackends)('BitNet on the %s backend', (backend) => {
  const ops = openBackend(backend);
  afterAll(() => ops.close());
  const run = async (folder: string): Promise<Float32Array> =>
    new ModelSession(ops, await load(folder, ops), ids.length).run(ids, ids.length);

  it.each(cases)('gives logits close to case $name', async (one) => {
    const model = await load(golden, ops);
    expect(model.weightFormat).toBe('int8');
    const got = new ModelSession(ops, model, one.ids.length).run(one.ids, one.rows);
    expect(cosine(got, one.logits)).toBeGreaterThan(0.999);
  });

  it('gives the bits of the same numbers in int8', async () => {
    const scales = new Map(
      readStoredTensors(join(golden, 'model.safetensors'))
        .filter(({ name }) => name.endsWith('weight_scale'))
        .map(({ name, bytes }) => [name, 1 / new Float32Array(new Uint8Array([0, 0, ...bytes]).buffer)[0]!]),
    );
    const wide = changed((tensor) => {
      if (tensor.name.endsWith('weight_scale')) return [];
      if (tensor.dtype !== 'u8') return [tensor];
      const weight = widened(tensor);
      const scale = new Float32Array(weight.shape[0]!).fill(scales.get(`${tensor.name}_scale`)!);
      const bytes = new Uint8Array(scale.buffer);
      return [weight, { name: `${tensor.name}_scale`, dtype: 'f32', shape: [scale.length, 1], bytes }];
    }, W8A8);
    expect(await run(golden)).toEqual(await run(wide));
  });

  it('multiplies by the scale where linear_class is autobitlinear', async () => {
    const inverse = changed(
      (tensor) => {
        if (!tensor.name.endsWith('weight_scale')) return [tensor];
        const scale = new Float32Array(new Uint8Array([0, 0, ...tensor.bytes]).buffer)[0]!;
        return [{ ...tensor, dtype: 'f32', bytes: new Uint8Array(Float32Array.of(1 / scale).buffer) }];
      },
      { linear_class: 'autobitlinear' },
    );
    expect(await run(inverse)).toEqual(await run(golden));
  });

  it('refuses codes that stand for no number, and scales that are not above 0', async () => {
    const damaged = changed((tensor) => {
      if (!tensor.name.endsWith('o_proj.weight')) return [tensor];
      return [{ ...tensor, bytes: tensor.bytes.with(3, 0b00_11_00_00) }];
    });
    await expect(load(damaged, ops)).rejects.toThrow(
      /tensor model\.layers\.0\.self_attn\.o_proj\.weight of .* has a code that stands for no number/,
    );
    const unscaled = changed((tensor) =>
      tensor.name.endsWith('o_proj.weight_scale') ? [{ ...tensor, bytes: new Uint8Array(2) }] : [tensor],
    );
    const loading = load(unscaled, ops);
    await expect(loading).rejects.toThrow(ModelLoadError);
    await expect(loading).rejects.toThrow(/o_proj\.weight_scale of .* must be above 0, got 0/);
  });

  it('refuses releases that quantise floats while they are trained, and norms before products', async () => {
    const online = changed((tensor) => [tensor], { quantization_mode: 'online' });
    await expect(load(online, ops)).rejects.toThrow(/bitnet is served as numbers of 2 bits .* offline/);
    const normed = changed((tensor) => [tensor], { use_rms_norm: true });
    await expect(load(normed, ops)).rejects.toThrow(/use_rms_norm/);
  });
});

it('BitNet over two ranks gives the bits of one', needsNative, async () => {
  const models = [1, 2].map((size) => SharedModel.load(golden, size, { dtype: 'auto' }));
  const [one, two] = (await Promise.all(models)).map((model) => {
    const logits = model.session(ids.length).run(ids, ids.length);
    model.close();
    return logits;
  });
  expect(two).toEqual(one);
});
