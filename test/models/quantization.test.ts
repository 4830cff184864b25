// Weights as int8: made of floats while they are read, or published so.

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ConfigError, ModelLoadError } from '../../src/errors.ts';
import { loadModel } from '../../src/models/load-model.ts';
import type { Model } from '../../src/models/model.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import type { Ops } from '../../src/ops/ops.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { compressModel, type Damage, W8A8 } from '../fixtures/compressed-model.ts';
import { type TinyModelOptions, writeTinyModel } from '../fixtures/tiny-model.ts';
import { TINY_VOCAB_SIZE } from '../fixtures/tiny-tokenizer.ts';
import { availableBackends, openBackend } from '../helpers/backends.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { ModelSession } from './model-session.ts';

const newFolder = temporaryFolders();
const PROMPT = Array.from({ length: 40 }, (_, i) => (i * 37) % TINY_VOCAB_SIZE);

function tinyModel(options: TinyModelOptions = {}): string {
  const folder = newFolder();
  writeTinyModel(folder, options);
  return folder;
}

/** Fields that replace or join those of config.json. */
function writeConfig(folder: string, fields: object): void {
  const path = join(folder, 'config.json');
  writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')), ...fields }));
}

type Options = Partial<Parameters<typeof loadModel>[2]>;

function load(folder: string, ops: Ops, options: Options = {}): Promise<Model> {
  return loadModel(openModelSource(folder), ops, { dtype: 'auto', maxModelLen: null, ...options });
}

async function logitsOf(folder: string, ops: Ops, options: Options = {}): Promise<Float32Array> {
  return new ModelSession(ops, await load(folder, ops, options), PROMPT.length).run(PROMPT, 1);
}

const everything = (): boolean => true;
const layersOnly = (name: string): boolean => name.includes('.layers.');

describe.each(availableBackends)('int8 on %s', (backend) => {
  it('is near the published weights in a quarter of their memory, and not equal to them', async () => {
    const ops = openBackend(backend);
    const folder = tinyModel();
    const [expected, actual] = [await load(folder, ops), await load(folder, ops, { quantization: 'int8' })];
    expect(actual.dtype).toBe('bf16');
    if (backend !== 'reference') expect(actual.weightBytes).toBeLessThan(expected.weightBytes * 0.3);
    const [a, b] = [expected, actual].map((model) => new ModelSession(ops, model, 40).run(PROMPT, 1));
    const error = Math.hypot(...a!.map((value, i) => value - b![i]!)) / Math.hypot(...a!);
    expect(error).toBeGreaterThan(0);
    expect(error).toBeLessThan(0.05);
    ops.close();
  });

  it.each([
    ['int4', 'int4-g32', 0.4, 0.3],
    ['fp8', 'fp8', 0.1, 0.6],
  ] as const)(
    'in %s it is near the published weights too, in less memory',
    async (quantization, name, most, share) => {
      const ops = openBackend(backend);
      const folder = tinyModel();
      const [expected, actual] = [await load(folder, ops), await load(folder, ops, { quantization })];
      expect([actual.dtype, actual.weightFormat]).toEqual(['bf16', name]);
      if (backend !== 'reference') expect(actual.weightBytes).toBeLessThan(expected.weightBytes * share);
      const [a, b] = [expected, actual].map((model) => new ModelSession(ops, model, 40).run(PROMPT, 1));
      const error = Math.hypot(...a!.map((value, i) => value - b![i]!)) / Math.hypot(...a!);
      expect(error).toBeGreaterThan(0);
      expect(error).toBeLessThan(most);
      ops.close();
    },
  );

  it('has the same bits whether the weights are published so or made so', async () => {
    const ops = openBackend(backend);
    const folder = tinyModel();
    const expected = await logitsOf(folder, ops, { quantization: 'int8' });
    compressModel(folder, everything);
    expect(await logitsOf(folder, ops)).toEqual(expected);
    ops.close();
  });

  it('leaves what quantization_config ignores in floats, biases too', async () => {
    const ops = openBackend(backend);
    const folder = tinyModel({
      architecture: 'Qwen2ForCausalLM',
      config: { tie_word_embeddings: false },
    });
    const whole = await logitsOf(folder, ops, { quantization: 'int8' });
    compressModel(folder, layersOnly, { config: { ...W8A8, ignore: ['re:lm_.*'] } });
    const actual = await logitsOf(folder, ops);
    expect(actual).not.toEqual(whole);
    const error = Math.hypot(...whole.map((value, i) => value - actual[i]!)) / Math.hypot(...whole);
    expect(error).toBeLessThan(0.02);
    ops.close();
  });

  const scaleOf =
    (name: string, values: (count: number) => Float32Array): Damage =>
    (tensor) =>
      tensor.name === `${name}.weight_scale`
        ? { ...tensor, bytes: new Uint8Array(values(tensor.shape[0]!).buffer) }
        : tensor;
  const down = 'model.layers.1.mlp.down_proj';

  it.each<[string, Damage, RegExp]>([
    [
      'missing scales',
      (tensor) => (tensor.name === `${down}.weight_scale` ? null : tensor),
      /tensor model\.layers\.1\.mlp\.down_proj\.weight_scale \[64, 1\] is missing/,
    ],
    [
      'scales of another shape',
      (tensor) => (tensor.name === `${down}.weight_scale` ? { ...tensor, shape: [32, 2] } : tensor),
      /down_proj\.weight_scale must be \[64, 1\] by config\.json, it is \[32, 2\]/,
    ],
    [
      'a scale that is not a number',
      scaleOf(down, (count) => new Float32Array(count).fill(0.1).fill(Number.NaN, 7, 8)),
      /down_proj\.weight_scale of .* is not finite at \[7(, 0)?\]/,
    ],
    [
      'a scale of zero',
      scaleOf(down, (count) => new Float32Array(count).fill(0.1).fill(0, 9, 10)),
      /down_proj\.weight_scale of .*model\.safetensors must be above 0, row 9 is not/,
    ],
    [
      'a negative scale',
      scaleOf(down, (count) => new Float32Array(count).fill(-0.1)),
      /must be above 0, row 0 is not/,
    ],
    [
      'parts that are multiplied together of which one is ignored',
      (tensor) => tensor,
      /layers\.0\.self_attn\.q_proj\.weight is int8 and model\.layers\.0\.self_attn\.k_proj\.weight is not quantised/,
    ],
  ])('refuses %s', async (name, damage, message) => {
    const ops = openBackend(backend);
    const folder = tinyModel();
    const isMixed = name.startsWith('parts');
    compressModel(folder, (weight) => !isMixed || !weight.endsWith('k_proj'), { damage });
    const loading = load(folder, ops);
    await expect(loading).rejects.toThrow(ModelLoadError);
    await expect(loading).rejects.toThrow(message);
    ops.close();
  });
});

describe('a checkpoint that is quantised', () => {
  const ops = new ReferenceOps();

  it('is quantised to no other format, nor computed with in float32', async () => {
    const folder = tinyModel();
    compressModel(folder, everything);
    for (const [options, message] of [
      [{ quantization: 'fp8' }, /quantised already \(compressed-tensors\): leave out --quantization/],
      [{ dtype: 'float32' }, /computed with in bfloat16 or float16: leave out --dtype/],
    ] as const) {
      await expect(load(folder, ops, options)).rejects.toThrow(ConfigError);
      await expect(load(folder, ops, options)).rejects.toThrow(message);
    }
  });

  it('stays as it is where it is to become the int8 that it is', async () => {
    const folder = tinyModel();
    compressModel(folder, everything);
    const [published, int8] = [await load(folder, ops), await load(folder, ops, { quantization: 'int8' })];
    expect([int8.weightFormat, int8.weightBytes]).toEqual(['int8', published.weightBytes]);
    const [a, b] = [published, int8].map((model) => new ModelSession(ops, model, 40).run(PROMPT, 1));
    expect(b).toEqual(a);
  });

  const weights = W8A8.config_groups.group_0.weights;
  const group = (fields: object) => ({
    ...W8A8,
    config_groups: { a: { ...W8A8.config_groups.group_0, ...fields } },
  });

  it.each<[string, object, RegExp]>([
    [
      'hqq',
      { quant_method: 'hqq', bits: 4 },
      /hqq is not served; compressed-tensors, .* use a float32.* --quantization/,
    ],
    ['a scheme without a name', {}, /unnamed is not served/],
    [
      'weights of 4 bits',
      group({ weights: { ...weights, num_bits: 4 } }),
      /config_groups\.a\.weights\.num_bits/,
    ],
    ['scales a group', group({ weights: { ...weights, strategy: 'group' } }), /weights\.strategy/],
    ['a broken rule', { ...W8A8, ignore: ['re:('] }, /an expression in "ignore" .* is no regular expression/],
  ])('is refused by name where it is %s', async (_, config, message) => {
    const folder = tinyModel();
    writeConfig(folder, { quantization_config: config });
    await expect(load(folder, ops)).rejects.toThrow(ModelLoadError);
    await expect(load(folder, ops)).rejects.toThrow(message);
  });

  it('is refused where config.json does not say so', async () => {
    const folder = tinyModel();
    compressModel(folder, everything);
    writeConfig(folder, { quantization_config: null });
    await expect(load(folder, ops)).rejects.toThrow(/must be F32, F16 or BF16, it is I8/);
  });
});
