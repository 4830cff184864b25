// GGUF files that are damaged, or made to do damage: each is refused by name, in bounded time and memory.

import { mkdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ModelLoadError } from '../../src/errors.ts';
import { loadModel } from '../../src/models/load-model.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { type GgufModelOptions, writeGgufModel } from '../fixtures/gguf-model.ts';
import { type GgufTensor, type GgufValue, writeGguf } from '../fixtures/gguf-writer.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { mutateBytes, seededDraw } from '../fuzz/mutations.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const newFolder = temporaryFolders();

const SMALL = { hidden_size: 32, intermediate_size: 32, num_hidden_layers: 1, head_dim: 8 };

function tinyGguf(options: GgufModelOptions = {}, name = 'model.gguf'): string {
  const folder = newFolder();
  writeTinyModel(folder, { config: SMALL });
  const path = join(folder, name);
  writeGgufModel(folder, path, options);
  return path;
}

/** A file of a few keys and tensors; what the tensors hold does not matter. */
function file(
  tensors: readonly GgufTensor[] = [],
  metadata: Readonly<Record<string, GgufValue>> = {},
): string {
  const folder = newFolder();
  mkdirSync(folder);
  const path = join(folder, 'file.gguf');
  writeGguf(path, { 'general.architecture': { string: 'llama' }, ...metadata }, tensors, () => [
    new Uint8Array(128),
  ]);
  return path;
}

function edit(path: string, change: (bytes: Buffer) => Buffer | undefined): string {
  const bytes = readFileSync(path);
  writeFileSync(path, change(bytes) ?? bytes);
  return path;
}

/** All that is read of a file before its weights are. */
function readAll(path: string): void {
  const source = openModelSource(path);
  const files = [
    'config.json',
    'generation_config.json',
    'tokenizer.json',
    'tokenizer_config.json',
    'chat_template.jinja',
  ];
  for (const name of files) source.read(name as 'config.json');
  readModelConfig(source);
  source.openCheckpoint();
  source.fingerprint();
}

const load = (path: string) =>
  loadModel(openModelSource(path), new ReferenceOps(), { dtype: 'auto', maxModelLen: 16 });

/** What is asked of a model before its tensors are. */
const TINY_KEYS = Object.fromEntries(
  ['embedding_length', 'feed_forward_length', 'block_count', 'attention.head_count', 'context_length'].map(
    (key) => [`llama.${key}`, { u32: 8 }] as const,
  ),
);

const matrix = (name: string, shape = [2, 16]): GgufTensor => ({ name, type: 'F32', shape });
/** Behind magic, version and counts. */
const FIRST_KEY = 24;

describe('a GGUF file', () => {
  it.each<[string, () => string, RegExp]>([
    [
      'of nothing',
      () => edit(file(), () => Buffer.alloc(0)),
      /ends inside its header, at byte 0; it is cut off/,
    ],
    [
      'of another format',
      () => edit(file(), (bytes) => void bytes.write('PK')),
      /no GGUF file: it begins with "PKUF"/,
    ],
    [
      'of version 1',
      () => edit(file(), (bytes) => void bytes.writeUInt32LE(1, 4)),
      /version 1, svc reads 2 and 3/,
    ],
    [
      'with bytes the other way round',
      () => edit(file(), (bytes) => void bytes.writeUInt32BE(3, 4)),
      /big-endian GGUF/,
    ],
    [
      'with 2^62 keys',
      () => edit(file(), (bytes) => void bytes.writeBigUInt64LE(2n ** 62n, 16)),
      /the number of keys at byte 16 claims 4611686018427388000, for which the header has no room/,
    ],
    [
      'with 2^17 keys in a file that is large enough for them',
      () => {
        const path = edit(file(), (bytes) => void bytes.writeBigUInt64LE(2n ** 17n, 16));
        truncateSync(path, 2 ** 22);
        return path;
      },
      /the number of keys is 131072, expected at most 65536; the file is damaged/,
    ],
    [
      'with 2^20 tensors in a file that is large enough for them',
      () => {
        const path = edit(file(), (bytes) => void bytes.writeBigUInt64LE(2n ** 20n, 8));
        truncateSync(path, 2 ** 25);
        return path;
      },
      /the number of tensors is 1048576, expected at most 524288; the file is damaged/,
    ],
    [
      'with 2^40 tensors',
      () => edit(file(), (bytes) => void bytes.writeBigUInt64LE(2n ** 40n, 8)),
      /the number of tensors at byte 8 claims 1099511627776/,
    ],
    [
      'with a string of 2^63 bytes',
      () => edit(file(), (bytes) => void bytes.writeBigUInt64LE(2n ** 63n, FIRST_KEY)),
      /the length of a key at byte 24 claims 9223372036854776000/,
    ],
    [
      'with a value of an unknown type',
      () => edit(file(), (bytes) => void bytes.writeUInt32LE(99, FIRST_KEY + 8 + 20)),
      /general\.architecture is of the type 99/,
    ],
    [
      'with a list of lists',
      () =>
        edit(file([], { 'a.list': { i32s: [1] } }), (bytes) => {
          bytes.writeUInt32LE(9, bytes.indexOf('a.list') + 6 + 4);
          return bytes;
        }),
      /a\.list is of the type 9, which svc does not read/,
    ],
    ['with no architecture', () => file([], { 'general.architecture': { u32: 1 } }), /must be a string/],
    [
      'of another architecture',
      () => file([], { 'general.architecture': { string: 'mamba' } }),
      /architecture mamba .* is not supported; supported are llama, qwen2/,
    ],
    [
      'with a strange alignment',
      () => file([], { 'general.alignment': { u32: 48 } }),
      /general\.alignment must be a power of 2 from 1 to 1048576, got 48; fetch the file again/,
    ],
    [
      'with an alignment of half a byte',
      () => file([], { 'general.alignment': { f32: 0.5 } }),
      /general\.alignment must be a power of 2 from 1 .*, got 0\.5/,
    ],
    [
      'with a list of 2^23 numbers',
      () => {
        const name = 'llama.attention.key_length';
        const path = edit(file([], { [name]: { i32s: [] } }), (bytes) => {
          const at = bytes.indexOf(name) + name.length + 4;
          bytes.writeUInt32LE(0, at);
          bytes.writeBigUInt64LE(2n ** 23n, at + 4);
        });
        truncateSync(path, 2 ** 24);
        return path;
      },
      /the number of items of llama\.attention\.key_length is 8388608, expected at most 4194304/,
    ],
    [
      'of pieces with one that is far too long',
      () =>
        tinyGguf({
          metadata: {
            'tokenizer.ggml.model': { string: 'llama' },
            'tokenizer.ggml.tokens': { strings: ['a', 'a'.repeat(513)] },
            'tokenizer.ggml.token_type': undefined,
            'tokenizer.ggml.scores': { f32s: [0, 0] },
          },
        }),
      /tokenizer\.ggml\.tokens has a token of 513 characters, expected at most 512: "a+…"/,
    ],
    [
      'with a tensor of no numbers',
      () => file([matrix('empty', [0, 16])]),
      /tensor empty \[0, 16\] F32 must have at least one number/,
    ],
    [
      'with half a block in a row',
      () => file([{ name: 'half', type: 'Q8_0', shape: [2, 16] }]),
      /tensor half \[2, 16\] Q8_0 must have .* rows of whole blocks of 32/,
    ],
    ['with a tensor twice', () => file([matrix('one'), matrix('one')]), /tensor one is there twice/],
    [
      'with overlapping tensors',
      () =>
        edit(
          file([matrix('a'), matrix('b')]),
          (bytes) => void bytes.writeBigUInt64LE(0n, offsetAt(bytes, 'b')),
        ),
      /overlaps the one before it, which ends at 128/,
    ],
    [
      'with a tensor between two places',
      () =>
        edit(
          file([matrix('a'), matrix('b')]),
          (bytes) => void bytes.writeBigUInt64LE(129n, offsetAt(bytes, 'b')),
        ),
      /does not begin at a multiple of 32/,
    ],
    [
      'with a tensor beyond its end',
      () =>
        edit(file([matrix('a')]), (bytes) => void bytes.writeBigUInt64LE(2n ** 40n, offsetAt(bytes, 'a'))),
      /tensor a ends at byte \d+, the file has \d+; it is cut off/,
    ],
    [
      'with a tensor of an unknown type',
      () => edit(file([matrix('a')]), (bytes) => void bytes.writeUInt32LE(77, offsetAt(bytes, 'a') - 4)),
      /tensor a is of the type 77/,
    ],
    [
      'with a tensor of 5 dimensions',
      () => edit(file([matrix('a')]), (bytes) => void bytes.writeUInt32LE(5, offsetAt(bytes, 'a') - 24)),
      /tensor a has 5 dimensions, expected 1 to 4/,
    ],
    [
      'without a number of the model',
      () => tinyGguf({ metadata: { 'llama.block_count': undefined } }),
      /the key llama\.block_count is missing/,
    ],
    [
      'with a text where a number is wanted',
      () => tinyGguf({ metadata: { 'llama.block_count': { string: '3' } } }),
      /the key llama\.block_count must be a number/,
    ],
    [
      'with layers of different widths',
      () => tinyGguf({ metadata: { 'llama.feed_forward_length': { i32s: [32, 64] } } }),
      /llama\.feed_forward_length differs between layers/,
    ],
    [
      'with fewer types than tokens',
      () => tinyGguf({ metadata: { 'tokenizer.ggml.token_type': { i32s: [1, 2] } } }),
      /token_type must have \d+ items as tokenizer\.ggml\.tokens has, it has 2/,
    ],
    [
      'with a merge of one token',
      () => tinyGguf({ metadata: { 'tokenizer.ggml.merges': { strings: ['ab'] } } }),
      /"ab" in tokenizer\.ggml\.merges is not two tokens/,
    ],
    [
      'whose end token is none',
      () => tinyGguf({ metadata: { 'tokenizer.ggml.eos_token_id': { u32: 1_000_000 } } }),
      /eos_token_id is 1000000, which is no token/,
    ],
    [
      'that cuts text in an unknown way',
      () => tinyGguf({ metadata: { 'tokenizer.ggml.pre': { string: 'klingon' } } }),
      /cuts text as "klingon" .* give the original's with --tokenizer/,
    ],
    [
      'with a tokenizer of an unknown kind',
      () => tinyGguf({ metadata: { 'tokenizer.ggml.model': { string: 'rwkv' } } }),
      /tokenizers of the kind "rwkv"/,
    ],
    [
      'with a million experts',
      () => {
        const experts = { name: 'blk.0.ffn_up_exps.weight', type: 'F32', shape: [2 ** 20, 1, 1] } as const;
        const keys = { ...TINY_KEYS, 'llama.attention.head_count': { u32: 2 } };
        const path = file([matrix('token_embd.weight'), experts], keys);
        truncateSync(path, 2 ** 22 + 4096);
        return path;
      },
      /ffn_up_exps\.weight \[1048576, 1, 1\] has too many experts, .* more than 524288 tensors/,
    ],
    [
      'with rows of I2_S that are not whole blocks',
      () => file([{ name: 'a', type: 'I2_S', shape: [4, 64] }]),
      /tensor a \[4, 64\] I2_S must have at least one number, and rows of whole blocks of 128/,
    ],
    [
      'that ends before the scale of I2_S',
      () => {
        const path = file([{ name: 'a', type: 'I2_S', shape: [2, 128] }]);
        return edit(path, (bytes) => bytes.subarray(0, Math.ceil((offsetAt(bytes, 'a') + 8) / 32) * 32 + 64));
      },
      /tensor a ends at byte \d+, the file has \d+; it is cut off/,
    ],
    [
      'with a list of factors that are no floats',
      () => {
        const own = Object.entries(TINY_KEYS).map(([key, value]) => [key.replace('llama', 'apertus'), value]);
        return file([matrix('token_embd.weight')], {
          ...Object.fromEntries(own),
          'general.architecture': { string: 'apertus' },
          'apertus.attention.head_count': { u32: 2 },
          'xielu.beta': { i32s: [1, 2] },
        });
      },
      /xielu\.beta must be a list of f32, one for each layer; convert the model again/,
    ],
    [
      'with a billion layers',
      () => tinyGguf({ metadata: { 'llama.block_count': { u32: 10 ** 9 } } }),
      /num_hidden_layers/,
    ],
    [
      'with rope factors that are no vector of F32',
      () =>
        edit(tinyGguf({ vectors: { 'rope_freqs.weight': [1, 1, 1, 1] } }), (bytes) => {
          bytes.writeUInt32LE(1, bytes.indexOf('rope_freqs.weight') + 17 + 4 + 8);
          return bytes;
        }),
      /rope_freqs\.weight must be a vector of F32, it is \[4\] F16/,
    ],
  ])('%s is refused by name', (_, make, message) => {
    const path = make();
    expect(() => readAll(path)).toThrow(ModelLoadError);
    expect(() => readAll(path)).toThrow(message);
  });

  it('with a tensor of a format that is not served is refused by the names of both', async () => {
    const path = tinyGguf();
    const bytes = readFileSync(path);
    const at = offsetAt(bytes, 'blk.0.ffn_up.weight');
    bytes.writeBigUInt64LE(256n, at - 20);
    bytes.writeBigUInt64LE(4n, at - 12);
    bytes.writeUInt32LE(16, at - 4);
    writeFileSync(path, bytes);
    await expect(load(path)).rejects.toThrow(ModelLoadError);
    await expect(load(path)).rejects.toThrow(/up_proj\.weight must be \[32, 32\]|it is IQ2_XXS/);
  });

  it('with a tensor that its architecture does not compute with is refused', async () => {
    const path = tinyGguf({ vectors: { 'blk.0.attn_sinks.weight': [1, 2] } });
    await expect(load(path)).rejects.toThrow(
      /tensor model\.layers\.0\.attn_sinks\.weight is in the checkpoint/,
    );
  });

  it('that is cut short is refused, wherever it is cut', () => {
    const path = tinyGguf();
    const { length } = readFileSync(path);
    for (const share of [0.999, 0.7, 0.1, 0.01, 0.001]) {
      truncateSync(path, Math.floor(length * share));
      expect(() => readAll(path)).toThrow(/cut off|no room/);
    }
  });

  it('of a split model is refused where a part is missing, another, or not the first', () => {
    const path = tinyGguf({ parts: 3 }, 'm-00001-of-00003.gguf');
    const [second, third] = [2, 3].map((part) => path.replace('00001-of', `0000${part}-of`));
    expect(() => readAll(second!)).toThrow(`${second} is part 2 of 3: name the first, ${path}`);
    const bytes = readFileSync(third!);
    writeFileSync(third!, readFileSync(second!));
    expect(() => readAll(path)).toThrow(`${third} must be part 3 of 3, its header says otherwise`);
    rmSync(third!);
    expect(() => readAll(path)).toThrow(`${third} is missing: the model is in 3 files`);
    writeFileSync(third!, bytes);
    const renamed = path.replace('m-00001-of-00003', 'renamed');
    writeFileSync(renamed, readFileSync(path));
    expect(() => readAll(renamed)).toThrow(
      /part of a model in 3 files: expected a name that ends in -00001-of-00003\.gguf/,
    );
  });

  it('is read, or refused with a short error for a person, whatever is damaged in it', () => {
    const path = tinyGguf();
    const whole = readFileSync(path);
    const draw = seededDraw(9);
    let refused = 0;
    for (let round = 0; round < 1000; round += 1) {
      // Half of them anywhere before the tensors, half of them where the counts are.
      const within = round % 2 === 0 ? whole.indexOf('blk.0.attn_norm.weight') + 1000 : 2000;
      writeFileSync(path, mutateBytes(whole, within, draw));
      try {
        readAll(path);
      } catch (error) {
        if (!(error instanceof ModelLoadError) || error.message.length > 2000) throw error;
        refused += 1;
      }
    }
    expect(refused).toBeGreaterThan(500);
  });
});

/** Where the offset of a tensor is: behind its name, the number of its dimensions, two of them, and its type. */
function offsetAt(bytes: Buffer, name: string): number {
  return bytes.lastIndexOf(name) + name.length + 4 + 16 + 4;
}
