// The models that svc makes itself: complete published folders, the same from the same seed, and fit to run.

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Tokenizer } from 'tokenizers';
import { afterAll, describe, expect, it } from 'vitest';
import { loadModel } from '../../src/models/load-model.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import type { Ops } from '../../src/ops/ops.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { LLAMA_LIKE } from '../fixtures/published-tensors.ts';
import { type TinyModelOptions, writeTinyModel } from '../fixtures/tiny-model.ts';
import { TINY_VOCAB_SIZE } from '../fixtures/tiny-tokenizer.ts';
import { availableBackends, openBackend } from '../helpers/backends.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { ModelSession } from './model-session.ts';

const newFolder = temporaryFolders();
const PROMPT = Array.from({ length: 40 }, (_, i) => (i * 37) % TINY_VOCAB_SIZE);

function tinyModel(options: TinyModelOptions): string {
  const folder = newFolder();
  writeTinyModel(folder, options);
  return folder;
}

async function logitsOf(folder: string, ops: Ops, dtype: 'auto' | 'float32' = 'auto'): Promise<Float32Array> {
  const model = await loadModel(openModelSource(folder), ops, { dtype, maxModelLen: null });
  return new ModelSession(ops, model, PROMPT.length).run(PROMPT, 1);
}

describe('a loaded model', () => {
  it.each(availableBackends)('serves on %s whatever happens to the file of its weights', async (backend) => {
    const ops = openBackend(backend);
    const [folder, expected] = [tinyModel({}), await logitsOf(tinyModel({}), ops)];
    const path = join(folder, 'model.safetensors');
    const model = await loadModel(openModelSource(folder), ops, { dtype: 'auto', maxModelLen: null });
    writeFileSync(path, Buffer.alloc(readFileSync(path).length));
    expect(new ModelSession(ops, model, PROMPT.length).run(PROMPT, 1)).toEqual(expected);
    ops.close();
  });
});

describe('writeTinyModel', () => {
  it('writes every file of a published model', () => {
    expect(readdirSync(tinyModel({})).sort()).toEqual([
      'config.json',
      'generation_config.json',
      'model.safetensors',
      'tokenizer.json',
      'tokenizer_config.json',
    ]);
  });

  it('writes shards and their index, and leaves the tokenizer out, where asked', () => {
    expect(readdirSync(tinyModel({ shards: 2, tokenizer: false })).sort()).toEqual([
      'config.json',
      'generation_config.json',
      'model-00001-of-00002.safetensors',
      'model-00002-of-00002.safetensors',
      'model.safetensors.index.json',
    ]);
  });

  it('writes the same bytes from the same seed, and others from another', () => {
    const weights = (seed: number) => readFileSync(join(tinyModel({ seed }), 'model.safetensors'));
    expect(weights(1).equals(weights(1))).toBe(true);
    expect(weights(1).equals(weights(2))).toBe(false);
  });

  it.each(availableBackends)(
    'rotates on %s the part of each head that config.json names',
    async (backend) => {
      const ops = openBackend(backend);
      const logits = (factor: number) =>
        logitsOf(tinyModel({ config: { partial_rotary_factor: factor } }), ops);
      expect(await logits(1)).toEqual(await logitsOf(tinyModel({}), ops));
      const half = await logits(0.5);
      expect(half).not.toEqual(await logits(1));
      const reference = new ReferenceOps();
      const expected = await logitsOf(tinyModel({ config: { partial_rotary_factor: 0.5 } }), reference);
      for (const [id, value] of expected.entries()) expect(half[id]).toBeCloseTo(value, 3);
      ops.close();
    },
  );

  it('loads the same in one file and in three', async () => {
    const ops = new ReferenceOps();
    expect(await logitsOf(tinyModel({ shards: 3 }), ops)).toEqual(await logitsOf(tinyModel({}), ops));
  });

  it('has a tokenizer that fills its vocabulary and gives any text back', async () => {
    const tokenizer = Tokenizer.fromFile(join(tinyModel({}), 'tokenizer.json'));
    expect(tokenizer.getVocabSize()).toBe(TINY_VOCAB_SIZE);
    const text = 'Hello, the world and you:\n\t 123 ÄÖ 你好 😀';
    const ids = (await tokenizer.encode(text, null, { addSpecialTokens: false })).getIds();
    expect(await tokenizer.decode(ids, false)).toBe(text);
    expect(ids.length).toBeLessThan(Buffer.byteLength(text));
  });
});

describe.each(availableBackends)('a tiny model on the %s backend', (backend) => {
  const ops = openBackend(backend);
  const reference = new ReferenceOps();
  afterAll(() => ops.close());

  it.each(LLAMA_LIKE)('computes %s as the reference does', async (architecture) => {
    const folder = tinyModel({ architecture });
    const [got, want] = [await logitsOf(folder, ops), await logitsOf(folder, reference)];
    for (const [i, value] of want.entries()) expect(Math.abs(got[i]! - value)).toBeLessThan(1e-4);
  });

  it.each(['f16', 'bf16'] as const)('loads %s weights without loss into f32', async (dtype) => {
    const folder = tinyModel({ dtype });
    const got = await logitsOf(folder, ops, 'float32');
    const want = await logitsOf(folder, reference, 'float32');
    for (const [i, value] of want.entries()) expect(Math.abs(got[i]! - value)).toBeLessThan(1e-4);
  });

  it('computes in the published format, and f16 in bf16', async () => {
    for (const [dtype, expected] of [
      ['f32', 'f32'],
      ['bf16', 'bf16'],
      ['f16', 'bf16'],
    ] as const) {
      const model = await loadModel(openModelSource(tinyModel({ dtype })), ops, {
        dtype: 'auto',
        maxModelLen: null,
      });
      expect(model.dtype).toBe(expected);
      expect(model.kvCacheShape({ blocks: 3, blockSize: 16, sequences: 1 })).toEqual({
        layers: 3,
        blocks: 3,
        blockSize: 16,
        kvHeads: 2,
        headDim: 16,
        dtype: expected,
        keysAreValues: false,
      });
    }
  });

  it('keeps keys and values in the format that is asked for, and computes in the published one', async () => {
    const load = (dtype: 'bf16' | 'f32', kvCacheDtype: 'auto' | 'bf16' | 'fp8' | 'int8') =>
      loadModel(openModelSource(tinyModel({ dtype })), ops, {
        dtype: 'auto',
        kvCacheDtype,
        maxModelLen: null,
      });
    for (const [kvCacheDtype, expected] of [
      ['auto', 'bf16'],
      ['bf16', 'bf16'],
      ['fp8', 'fp8'],
      ['int8', 'int8'],
    ] as const) {
      const model = await load('bf16', kvCacheDtype);
      expect([model.dtype, model.kvCacheShape({ blocks: 1, blockSize: 16, sequences: 1 }).dtype]).toEqual([
        'bf16',
        expected,
      ]);
    }
    await expect(load('f32', 'fp8')).rejects.toThrow(
      '--kv-cache-dtype fp8 is for models in 16 bits, and this one is computed in float32: leave it out, or give --dtype bfloat16',
    );
  });

  it.each([
    ['fp8', 0.25],
    ['int8', 0.1],
  ] as const)('computes nearly the same with keys and values in %s', async (kvCacheDtype, largest) => {
    const folder = tinyModel({ dtype: 'bf16' });
    const options = { dtype: 'auto', maxModelLen: null } as const;
    const run = async (format: 'auto' | 'fp8' | 'int8') => {
      const model = await loadModel(openModelSource(folder), ops, { ...options, kvCacheDtype: format });
      return new ModelSession(ops, model, PROMPT.length).run(PROMPT, 1);
    };
    const [plain, rounded] = [await run('auto'), await run(kvCacheDtype)];
    const errors = plain.map((value, i) => Math.abs(value - rounded[i]!));
    expect(Math.max(...errors)).toBeGreaterThan(0);
    expect(Math.max(...errors)).toBeLessThan(largest);
  });

  it('reports its progress up to the whole', async () => {
    const fractions: number[] = [];
    const onProgress = (fraction: number) => fractions.push(fraction);
    await loadModel(openModelSource(tinyModel({})), ops, { dtype: 'auto', maxModelLen: null, onProgress });
    expect(fractions).toEqual([...fractions].sort((a, b) => a - b));
    expect(fractions.at(-1)).toBe(1);
  });

  it('gives no logits where none are asked for', async () => {
    const model = await loadModel(openModelSource(tinyModel({})), ops, { dtype: 'auto', maxModelLen: null });
    expect(new ModelSession(ops, model, PROMPT.length).run(PROMPT, 0).length).toBe(0);
  });
});
