// A model in GGUF and what it sees images with beside it, against the folder that both are made of.

import { copyFileSync, mkdirSync, rmSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { LLM } from '../../src/index.ts';
import { loadModel } from '../../src/models/load-model.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { type GgufEncoderOptions, writeGgufEncoder, writeGgufText } from '../fixtures/gguf-vision-model.ts';
import type { GgufValue } from '../fixtures/gguf-writer.ts';
import { tinyPicture, writeTinyVisionModel } from '../fixtures/tiny-vision-model.ts';
import { openBackend } from '../helpers/backends.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const nameFolder = temporaryFolders();
const newFolder = (): string => {
  const folder = nameFolder();
  mkdirSync(folder);
  return folder;
};
const pictures = await Promise.all([1, 2].map((seed) => tinyPicture(seed, 40, 30 + seed)));
const original = newFolder();
writeTinyVisionModel(original, { family: 'Qwen3-VL' });
const named = (name: string): Record<string, GgufValue> => ({ 'general.name': { string: name } });

/** The path of the part that reads text, in a folder of its own. */
function textIn(folder: string, metadata = named('Tiny')): string {
  const path = join(folder, 'tiny-F32.gguf');
  writeGgufText(original, path, metadata);
  return path;
}

function encoderIn(folder: string, name = 'mmproj-tiny.gguf', options: GgufEncoderOptions = {}): string {
  const path = join(folder, name);
  writeGgufEncoder(original, path, options);
  return path;
}

/** Answers to prompts with images, with logarithms of probabilities. */
async function answersOf(model: string) {
  const llm = new LLM({ model, kvCacheMemoryBytes: 2 ** 24 });
  const prompts = pictures.map((picture) => ({
    prompt: 'a <|vision_start|><|image_pad|><|vision_end|> b',
    images: [picture],
  }));
  const found = await llm.generate(prompts, {
    max_tokens: 16,
    temperature: 0,
    logprobs: 2,
    ignore_eos: true,
  });
  await llm.close();
  return found.map(({ outputs: [output], prompt_token_ids }) => ({ output, prompt_token_ids }));
}

/** Bytes of the encoder that is read, and what is said of others. */
async function loadOf(path: string) {
  const ops = openBackend('reference');
  const warnings: string[] = [];
  const onWarning = (message: string) => void warnings.push(message);
  const source = openModelSource(path);
  const model = await loadModel(source, ops, { dtype: 'float32', maxModelLen: null, onWarning });
  ops.close();
  return { sees: model.imageEncoder !== null, warnings, fingerprint: source.fingerprint() };
}

describe('a model in GGUF with an encoder of images beside it', () => {
  let folder: string;
  let path: string;
  let expected: Awaited<ReturnType<typeof answersOf>>;
  beforeAll(async () => {
    folder = newFolder();
    path = textIn(folder);
    encoderIn(folder);
    expected = await answersOf(original);
  });

  it('answers with the bits of the folder that both are made of', async () => {
    expect(await answersOf(path)).toEqual(expected);
    expect(expected[0]!.output).not.toEqual(expected[1]!.output);
  });

  it('finds it above where it is in a folder of its format', async () => {
    const inner = join(newFolder(), 'F32');
    mkdirSync(inner);
    const own = join(inner, 'tiny-F32-00001-of-00001.gguf');
    copyFileSync(path, own);
    encoderIn(join(inner, '..'));
    expect(await loadOf(own)).toMatchObject({ sees: true, warnings: [] });
    encoderIn(inner, 'mmproj.gguf', { type: 'F16' });
    expect(openModelSource(own).openCheckpoint().dtypeOf('model.visual.pos_embed.weight')).toBe('f16');
    rmSync(join(inner, 'mmproj.gguf'));
    const other = join(inner, 'tiny-Q8_0.gguf');
    copyFileSync(path, other);
    expect((await loadOf(other)).sees).toBe(false);
  });

  it('is another model to others than without', async () => {
    const alone = join(newFolder(), 'tiny-F32.gguf');
    copyFileSync(path, alone);
    const [first, second] = [await loadOf(path), await loadOf(alone)];
    expect(second.sees).toBe(false);
    expect(second.fingerprint).not.toBe(first.fingerprint);
  });

  it.each([
    [['BF16', 'F16', 'F32'], 'bf16'],
    [['F32', 'F16'], 'f16'],
    [['Q8_0', 'F32'], 'f32'],
    [['F32'], 'f32'],
  ] as const)('in several formats (%s) is read in the best', async (types, best) => {
    const folder = newFolder();
    const own = textIn(folder);
    for (const type of types) encoderIn(folder, `mmproj-${type}.gguf`, { type, metadata: named('Tiny') });
    const checkpoint = openModelSource(own).openCheckpoint();
    expect(checkpoint.dtypeOf('model.visual.blocks.0.mlp.linear_fc1.weight')).toBe(best);
  });

  it('sees with the numbers of its blocks, whatever the rest is computed in', async () => {
    const rowsOf = async (type: 'Q8_0' | 'widened', dtype: 'float32' | 'bfloat16'): Promise<Float32Array> => {
      const folder = newFolder();
      const own = textIn(folder);
      encoderIn(folder, 'mmproj.gguf', { type });
      const ops = openBackend('cpu');
      const model = await loadModel(openModelSource(own), ops, { dtype, maxModelLen: null });
      const patches = Uint8Array.from({ length: 24 * 48 }, (_, i) => (37 * i) % 251);
      const colours = { factors: [1 / 255, 1 / 255, 1 / 255], offsets: [0, 0, 0] };
      const rows = model.imageEncoder!.encode({ rows: 4, cols: 6, patches }, colours);
      ops.close();
      return rows;
    };
    for (const dtype of ['float32', 'bfloat16'] as const) {
      expect(await rowsOf('Q8_0', dtype)).toEqual(await rowsOf('widened', dtype));
    }
  });

  it('has the one of its name, where others would do', () => {
    const folder = newFolder();
    const own = textIn(folder);
    encoderIn(folder, 'mmproj-a.gguf', { metadata: named('Other') });
    encoderIn(folder, 'mmproj-b.gguf', { type: 'F16', metadata: named('Tiny') });
    const checkpoint = openModelSource(own).openCheckpoint();
    expect(checkpoint.dtypeOf('model.visual.pos_embed.weight')).toBe('f16');
  });

  it('is not loaded where those of other models would do', async () => {
    const folder = newFolder();
    const own = textIn(folder);
    encoderIn(folder, 'mmproj-a.gguf', { metadata: named('One') });
    encoderIn(folder, 'mmproj-b.gguf', { metadata: named('Other') });
    await expect(loadOf(own)).rejects.toThrow(
      `${own}: mmproj-a.gguf and mmproj-b.gguf beside it would both make it see images: leave only the right one there`,
    );
  });

  it('says of one that svc does not know that it sees no images', async () => {
    const folder = newFolder();
    const own = textIn(folder);
    const file = encoderIn(folder, 'mmproj.gguf', {
      metadata: { 'clip.projector_type': { string: 'lfm3' } },
    });
    const { sees, warnings } = await loadOf(own);
    expect(sees).toBe(false);
    expect(warnings).toEqual([
      expect.stringContaining(
        `${file} is an encoder of images that svc does not know (clip.projector_type lfm3)`,
      ),
    ]);
  });

  it.each<[string, Record<string, GgufValue>, Record<string, GgufValue>]>([
    ['of another width', {}, { 'clip.vision.projection_dim': { u32: 32 } }],
    ['of another architecture', {}, { 'clip.projector_type': { string: 'gemma3' } }],
    ['for whose images it has no token', { 'tokenizer.ggml.tokens': { strings: ['a'] } }, {}],
  ])('reads none %s', async (_, ofText, ofEncoder) => {
    const folder = newFolder();
    const own = textIn(folder, { ...named('Tiny'), ...ofText });
    encoderIn(folder, 'mmproj.gguf', { metadata: ofEncoder });
    expect(await loadOf(own)).toMatchObject({ sees: false, warnings: [] });
  });

  it('is not served in the place of the model, nor read where it is cut off', async () => {
    const folder = newFolder();
    const own = textIn(folder);
    const file = encoderIn(folder);
    await expect(loadOf(file)).rejects.toThrow(
      `${file} is what a model sees images with: name the *.gguf file`,
    );
    truncateSync(file, 4000);
    await expect(loadOf(own)).rejects.toThrow(file);
  });
});
