// Adapters on models: against the logits that PEFT computes, and what is refused before anything is served.

import { mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ModelLoadError, messageOf } from '../../src/errors.ts';
import { type LoadedAdapter, loadAdapter, unloadAdapter } from '../../src/models/adapters/load-adapter.ts';
import { type LoadOptions, loadModel } from '../../src/models/load-model.ts';
import type { Model } from '../../src/models/model.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { TINY_PROJECTIONS, type TinyAdapterOptions, writeTinyAdapter } from '../fixtures/tiny-adapter.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { availableBackends, type Backend, openBackend } from '../helpers/backends.ts';
import { cosine, largestDifference } from '../helpers/compare.ts';
import { readGolden } from '../helpers/read-tensors.ts';
import { ModelSession } from './model-session.ts';

const fixture = (name: string) => fileURLToPath(new URL(`../fixtures/${name}`, import.meta.url));
const ADAPTERS = fixture('adapters');
const manifest = z.object({
  base: z.string(),
  cases: z.array(
    z.object({ id: z.string(), input_ids: z.array(z.number()), greedy_ids: z.array(z.number()) }),
  ),
});
const ID = 5;
const MAX_RANK = 32;

function load(path: string, model: Model, { id = ID, maxRank = MAX_RANK } = {}): LoadedAdapter {
  const loading = loadAdapter({ id, path, maxRank }, model);
  let part = loading.next();
  while (part.done !== true) part = loading.next();
  return part.value;
}

function openModel(folder: string, backend: Backend, options: Partial<LoadOptions> = {}) {
  const ops = openBackend(backend);
  const loading = loadModel(openModelSource(folder), ops, {
    dtype: 'float32',
    maxModelLen: null,
    ...options,
  });
  return { ops, loading };
}

describe.each(availableBackends)('adapters that PEFT has computed, on %s', (backend) => {
  describe.each(readdirSync(ADAPTERS))('%s', (name) => {
    const folder = join(ADAPTERS, name);
    const { base, cases } = manifest.parse(JSON.parse(readFileSync(join(folder, 'golden.json'), 'utf8')));
    const { ops, loading } = openModel(fixture(`goldens/${base}`), backend);
    afterAll(() => ops.close());
    let model: Model;
    beforeAll(async () => {
      model = await loading;
      load(folder, model);
    });
    const logitsOf = (id: string) => readGolden(join(folder, 'golden.safetensors'), `${id}.logits`);

    it.each(cases)('gives the logits of case $id within 1e-4 in f32', ({ id, input_ids: ids }) => {
      const { shape, values } = logitsOf(id);
      const session = new ModelSession(ops, model, ids.length, ID);
      expect(largestDifference(session.run(ids, shape[0]!), values)).toBeLessThan(1e-4);
    });

    it.each(cases)(
      'continues case $id greedily as PEFT does',
      ({ input_ids: ids, greedy_ids: greedyIds }) => {
        const session = new ModelSession(ops, model, ids.length + greedyIds.length, ID);
        expect(session.greedy(ids, greedyIds.length)).toEqual(greedyIds);
      },
    );

    it('leaves the model as it was to sequences without it, and to all once it is unloaded', async () => {
      const plain = openModel(fixture(`goldens/${base}`), backend);
      const ids = cases[0]!.input_ids;
      const expected = new ModelSession(plain.ops, await plain.loading, ids.length).run(ids, 1);
      expect(new ModelSession(ops, model, ids.length).run(ids, 1)).toEqual(expected);
      load(folder, model, { id: 9 });
      unloadAdapter(9, model.loraTargets);
      expect(new ModelSession(ops, model, ids.length, 9).run(ids, 1)).toEqual(expected);
      plain.ops.close();
    });

    it('gives logits close to those of PEFT in bfloat16 and over quantised weights', async () => {
      if (backend === 'reference') return;
      for (const quantization of [null, 'int8'] as const) {
        const rounded = openModel(fixture(`goldens/${base}`), backend, { dtype: 'bfloat16', quantization });
        const roundedModel = await rounded.loading;
        load(folder, roundedModel);
        const { id, input_ids: ids } = cases[1]!;
        const { shape, values } = logitsOf(id);
        const got = new ModelSession(rounded.ops, roundedModel, ids.length, ID).run(ids, shape[0]!);
        expect(cosine(got, values)).toBeGreaterThan(0.98);
        rounded.ops.close();
      }
    });
  });
});

describe('an adapter that is refused', () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-adapters-'));
  const ops = openBackend('reference');
  let model: Model;
  beforeAll(async () => {
    writeTinyModel(join(folder, 'model'), { seed: 1 });
    model = await loadModel(openModelSource(join(folder, 'model')), ops, {
      dtype: 'float32',
      maxModelLen: null,
    });
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  let numAdapters = 0;
  /** Of one layer in all three, to be quick. */
  const adapter = (options: TinyAdapterOptions = {}): string => {
    const path = join(folder, `adapter-${numAdapters++}`);
    writeTinyAdapter(path, { projections: { 'self_attn.q_proj': [64, 64] }, ...options });
    return path;
  };
  const tryLoad = (path: string) => () => load(path, model);
  const expectRefusal = (path: string, message: RegExp): void => {
    let refusal: unknown;
    try {
      load(path, model);
    } catch (error) {
      refusal = error;
    }
    expect(refusal).toBeInstanceOf(ModelLoadError);
    expect(messageOf(refusal)).toMatch(message);
  };

  it.each<[string, Readonly<Record<string, unknown>>, RegExp]>([
    ['another kind of adapter', { peft_type: 'LOHA' }, /peft_type is "LOHA".*not supported/],
    ['no rank', { r: 0 }, /adapter_config\.json: .*r/],
    ['a rank that is no number', { r: '8' }, /adapter_config\.json: .*r/],
    ['DoRA', { use_dora: true }, /use_dora: DoRA .*not supported/],
    ['modules that are saved whole', { modules_to_save: ['lm_head'] }, /modules_to_save is \["lm_head"\]/],
    ['trained biases', { bias: 'lora_only' }, /bias is "lora_only".*not supported/],
    ['biases of its matrices', { lora_bias: true }, /lora_bias: biases of LoRA/],
    ['trained embeddings', { trainable_token_indices: [1] }, /trainable_token_indices: trained embeddings/],
    ['adapted parameters', { target_parameters: ['mlp.experts.up'] }, /target_parameters: .*experts/],
    [
      'a start that changes the model',
      { init_lora_weights: 'pissa_niter_4' },
      /changes the weights of the model/,
    ],
    ['a rank that its weights do not have', { r: 2 }, /lora_A of .* is \[4, 64\], .* says rank 2/],
    ['a rank beyond the limit', { rank_pattern: { q_proj: 33 } }, /rank 33 .* --max-lora-rank 32/],
    [
      'targets that its weights do not have',
      { target_modules: ['q_proj', 'o_proj'] },
      /names layers\.0\.self_attn\.o_proj/,
    ],
    [
      'weights that are no targets',
      { target_modules: ['k_proj'] },
      /do not name model\.layers\.0\.self_attn\.q_proj/,
    ],
    [
      'weights of modules that it leaves out',
      { exclude_modules: ['layers.1.self_attn.q_proj'] },
      /adapter_config\.json: exclude_modules leaves out model\.layers\.1\.self_attn\.q_proj, of which/,
    ],
    [
      'weights of modules that a pattern leaves out',
      { exclude_modules: '.*\\.2\\..*' },
      /exclude_modules leaves out model\.layers\.2\.self_attn\.q_proj, of which/,
    ],
    [
      'targets that its weights do not have, nor are left out',
      { target_modules: ['q_proj', 'o_proj'], exclude_modules: ['layers.0.self_attn.o_proj'] },
      /names layers\.1\.self_attn\.o_proj/,
    ],
    [
      'a factor beyond float32',
      { lora_alpha: 1e308 },
      /adapter_config\.json: alpha 1e\+308 .* of model\.layers\.0\.self_attn\.q_proj, .* more than a number of float32/,
    ],
    ['a pattern of such a factor', { alpha_pattern: { q_proj: -1e300 } }, /alpha -1e\+300/],
    ['weights of layers that are none', { layers_to_transform: [1] }, /do not name model\.layers\.0/],
    ['a pattern that is none', { target_modules: '(q_proj' }, /target_modules is no regular expression/],
    ['a pattern that never ends', { target_modules: '(.+)+!' }, /target_modules takes longer than 1 s/],
    ['patterns that never end', { alpha_pattern: { '(?:.+)+!': 1 } }, /alpha_pattern takes longer than 1 s/],
  ])('for %s', (_, config, message) => {
    expectRefusal(adapter({ config }), message);
  });

  it('but not where it leaves out modules of which it has no weights', () => {
    const config = { target_modules: ['q_proj', 'o_proj'], exclude_modules: ['o_proj'] };
    expect(tryLoad(adapter({ config }))).not.toThrow();
  });

  it.each<[string, TinyAdapterOptions, RegExp]>([
    [
      'another model',
      { projections: { 'self_attn.q_proj': [64, 48] } },
      /adapts a weight \[64, 48\].*\[64, 64\].*another model/,
    ],
    ['more layers', { layers: 4 }, /model\.layers\.3\.self_attn\.q_proj: the model has no such projection/],
    [
      'projections that are none',
      { projections: { 'self_attn.x_proj': [64, 64] } },
      /x_proj: .* those of this model are q_proj, /,
    ],
    [
      'experts',
      { projections: { 'mlp.experts.0.up_proj': [64, 64] } },
      /adapters of experts are not supported/,
    ],
    [
      'half of a module',
      { tensors: (all) => all.slice(1) },
      /lora_A of model\.layers\.0\.self_attn\.q_proj is missing/,
    ],
    ['nothing', { tensors: () => [] }, /holds no tensor/],
    [
      'embeddings',
      { tensors: () => [{ name: 'base_model.model.model.embed_tokens.lora_embedding_A', shape: [4, 64] }] },
      /adapts the embeddings, which is not supported/,
    ],
    [
      'the output head',
      { tensors: () => [{ name: 'base_model.model.lm_head.lora_A.weight', shape: [4, 64] }] },
      /adapts the output head/,
    ],
    [
      // In the place of modules that read text, of which it has the shape.
      'what sees images',
      {
        tensors: (all) =>
          all.map((one) => ({ ...one, name: one.name.replace('layers', 'vision_model.layers') })),
      },
      /vision_model\.layers\.0\..* adapts the part that sees images, which is not supported/,
    ],
    [
      'sizes of DoRA',
      { tensors: (all) => [...all, { name: 'base_model.model.a.lora_magnitude_vector', shape: [4] }] },
      /is a size of DoRA/,
    ],
    [
      'whole weights',
      { tensors: (all) => [...all, { name: 'base_model.model.model.norm.weight', shape: [64] }] },
      /model\.norm\.weight is no matrix of LoRA/,
    ],
    [
      'matrices that are none',
      { tensors: (all) => all.map((one, i) => (i === 1 ? { ...one, shape: [64] } : one)) },
      /must be \[any, 4\], it is \[64\]/,
    ],
  ])('of %s', (_, options, message) => {
    expectRefusal(adapter(options), message);
  });

  it('that is no folder, lacks a file, is cut short, or has numbers that are none', () => {
    expect(tryLoad(join(folder, 'nowhere'))).toThrow(/nowhere is no folder/);
    const [bare, bin, cut, json, broken] = Array.from({ length: 5 }, () => adapter());
    rmSync(join(bare!, 'adapter_config.json'));
    expect(tryLoad(bare!)).toThrow(/holds no adapter_config\.json/);
    rmSync(join(bin!, 'adapter_model.safetensors'));
    writeFileSync(join(bin!, 'adapter_model.bin'), '');
    expect(tryLoad(bin!)).toThrow(/adapter_model\.bin is in a format that svc does not read/);
    truncateSync(join(cut!, 'adapter_model.safetensors'), 2000);
    expect(tryLoad(cut!)).toThrow(/cut off, fetch it again/);
    writeFileSync(join(json!, 'adapter_config.json'), '{');
    expect(tryLoad(json!)).toThrow(/adapter_config\.json is not valid JSON/);
    const weights = join(broken!, 'adapter_model.safetensors');
    const bytes = readFileSync(weights);
    bytes.writeFloatLE(Number.NaN, bytes.length - 4);
    writeFileSync(weights, bytes);
    expect(tryLoad(broken!)).toThrow(/lora_B\.weight .*not finite/);
  });

  it('leaves nothing behind', () => {
    const path = adapter({ projections: TINY_PROJECTIONS });
    const weights = join(path, 'adapter_model.safetensors');
    const bytes = readFileSync(weights);
    bytes.writeFloatLE(Number.POSITIVE_INFINITY, bytes.length - 4);
    writeFileSync(weights, bytes);
    const ids = [5, 6, 7];
    const before = new ModelSession(ops, model, 3, ID).run(ids, 1);
    expect(tryLoad(path)).toThrow(/not finite/);
    expect(new ModelSession(ops, model, 3, ID).run(ids, 1)).toEqual(before);
  });

  it('names its contents by a digest: equal for equal numbers, whatever its folder', () => {
    const [first, same, other] = [{ seed: 1 }, { seed: 1 }, { seed: 2 }].map(adapter);
    const digests = [first, same, other].map((path) => load(path!, model).digest);
    expect(digests[1]).toBe(digests[0]);
    expect(digests[2]).not.toBe(digests[0]);
    const scaled = load(adapter({ seed: 1, config: { lora_alpha: 1 } }), model);
    expect(scaled.digest).not.toBe(digests[0]);
  });
});
