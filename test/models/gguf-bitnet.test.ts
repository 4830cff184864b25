// BitNet in GGUF files: the bits of the folder with the same numbers, whatever blocks they are in.

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { ModelLoadError } from '../../src/errors.ts';
import { loadModel } from '../../src/models/load-model.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import type { TernaryDType } from '../../src/ops/dtype.ts';
import { type Blocks, type GgufModelOptions, writeGgufModel } from '../fixtures/gguf-model.ts';
import { ggufTernary, type Ternary, writeTernaryModel } from '../fixtures/ternary-model.ts';
import { availableBackends, type Backend, openBackend } from '../helpers/backends.ts';
import { needsNative } from '../helpers/needs.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { ModelSession } from './model-session.ts';
import { SharedModel } from './shared-model.ts';

const newFolder = temporaryFolders();
const [floats, folder] = [newFolder(), newFolder()];
const matrices = writeTernaryModel(floats, folder);

const FORMATS = ['tq1_0', 'tq2_0', 'i2_s'] as const;
const IDS = Array.from({ length: 24 }, (_, i) => 5 + ((i * 37) % 320));
const UP = 'model.layers.0.mlp.up_proj.weight';

type Change = (blocks: Blocks, name: string, matrix: Ternary) => Blocks;

function ggufOf(
  dtype: TernaryDType,
  change: Change = (blocks) => blocks,
  options: GgufModelOptions = {},
): string {
  const entries = [...matrices].map(
    ([name, matrix]) => [name, change(ggufTernary(dtype, matrix), name, matrix)] as const,
  );
  const path = join(floats, `${dtype}-${Math.random()}.gguf`);
  writeGgufModel(floats, path, { ...options, blocks: new Map(entries) });
  return path;
}

/** The bytes of the up projection of layer 0, changed. */
const damaged = (change: (bytes: Uint8Array) => Uint8Array): Change => {
  return (blocks, name) =>
    name === UP ? { ...blocks, bytes: change(Uint8Array.from(blocks.bytes)) } : blocks;
};

async function answers(path: string, backend: Backend) {
  const ops = openBackend(backend);
  const warnings: string[] = [];
  const onWarning = (message: string) => void warnings.push(message);
  const model = await loadModel(openModelSource(path), ops, { dtype: 'auto', maxModelLen: 64, onWarning });
  const logits = new ModelSession(ops, model, 64).run(IDS, IDS.length);
  ops.close();
  return { logits, warnings, format: model.weightFormat };
}

describe.each(availableBackends)('BitNet in a GGUF file on %s', (backend) => {
  const ops = openBackend(backend);
  afterAll(() => ops.close());
  const load = (path: string) => loadModel(openModelSource(path), ops, { dtype: 'auto', maxModelLen: 16 });

  it.each(FORMATS)('of %s has the bits of the folder', async (dtype) => {
    const expected = await answers(folder, backend);
    expect(await answers(ggufOf(dtype), backend)).toEqual(expected);
    expect(expected).toMatchObject({ format: 'int8', warnings: [] });
  });

  it('may have blocks of zeros without a scale', async () => {
    const zeros: Change = (blocks, _, { numbers, rows }) => {
      const without = numbers.slice().fill(0, 0, 256);
      const bytes = Uint8Array.from(ggufTernary('tq2_0', { numbers: without, rows, scale: 0.25 }).bytes);
      return { ...blocks, bytes: bytes.fill(0, 64, 66) };
    };
    expect((await answers(ggufOf('tq2_0', zeros), backend)).format).toBe('int8');
  });

  it('keeps blocks of several scales as codes, and gates and ups of both kinds as numbers', async () => {
    const path = ggufOf(
      'tq2_0',
      damaged((bytes) => bytes.with(65, bytes[65]! + 4)),
    );
    const { format, warnings } = await answers(path, backend);
    expect(format).toBe('bf16+int8');
    expect(warnings).toEqual([expect.stringMatching(/^gates and ups in TQ2_0 are kept in bfloat16/)]);
    const down: Change = (blocks, name) =>
      name.includes('down_proj')
        ? { ...blocks, bytes: Uint8Array.from(blocks.bytes).fill(0x30, 65, 66) }
        : blocks;
    expect((await answers(ggufOf('tq2_0', down), backend)).format).toBe('int8+tq2_0');
  });

  it.each(['tq2_0', 'i2_s'] as const)(
    'of %s with a code that stands for no number is refused',
    async (dtype) => {
      const path = ggufOf(
        dtype,
        damaged((bytes) => bytes.with(70, 0b11)),
      );
      await expect(load(path)).rejects.toThrow(
        /tensor model\.layers\.0\.mlp\.up_proj\.weight of .* has a code that stands for no number/,
      );
    },
  );

  it('of I2_S with a scale that is not above 0 is refused', async () => {
    const path = ggufOf(
      'i2_s',
      damaged((bytes) => bytes.fill(0, (256 * 256) / 4)),
    );
    const loading = load(path);
    await expect(loading).rejects.toThrow(ModelLoadError);
    await expect(loading).rejects.toThrow(/up_proj\.weight_scale of .* must be above 0, got 0/);
  });

  it('of TL1, which is for one processor, is refused by its name', async () => {
    const path = ggufOf('i2_s');
    const file = readFileSync(path);
    const name = Buffer.from('blk.0.ffn_up.weight');
    file.writeUInt32LE(38, file.indexOf(name) + name.length + 4 + 16);
    writeFileSync(path, file);
    await expect(load(path)).rejects.toThrow(/up_proj\.weight \[256, 256\] must be .*, it is TL1/);
  });
});

it.each(FORMATS)('BitNet in %s over two ranks gives the bits of one', needsNative, async (dtype) => {
  const path = ggufOf(dtype);
  const models = [1, 2].map((size) => SharedModel.load(path, size, { dtype: 'auto' }));
  const [one, two] = (await Promise.all(models)).map((model) => {
    const logits = model.session(IDS.length).run(IDS, IDS.length);
    model.close();
    return logits;
  });
  expect(two).toEqual(one);
});

describe('the config of BitNet in a GGUF file', () => {
  const activationOf = (path: string) => readModelConfig(openModelSource(path)).activation;
  const as = (architecture: string, more: GgufModelOptions['metadata'] = {}) =>
    ggufOf('tq2_0', undefined, { architecture, metadata: more });

  it('has the activation that the file says, or that of its converter', () => {
    expect(activationOf(as('bitnet'))).toBe('silu');
    expect(activationOf(as('bitnet', { 'bitnet.hidden_activation': { string: 'relu2' } }))).toBe('relu2');
    expect(activationOf(as('bitnet-25'))).toBe('relu2');
    expect(activationOf(as('bitnet-b1.58'))).toBe('relu2');
  });

  it("cuts texts as Llama 3 where the file does not say, and is not of ggml's converter", () => {
    const wordsOf = (path: string) => openModelSource(path).read('tokenizer.json')?.text;
    const unnamed = { 'tokenizer.ggml.pre': undefined };
    const named = { 'tokenizer.ggml.pre': { string: 'llama-bpe' } };
    expect(wordsOf(as('bitnet-b1.58', unnamed))).toBe(wordsOf(as('bitnet-b1.58', named)));
    expect(wordsOf(as('bitnet', unnamed))).not.toBe(wordsOf(as('bitnet', named)));
  });
});
