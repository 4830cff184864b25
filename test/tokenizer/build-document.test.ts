import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { ModelLoadError } from '../../src/errors.ts';
import { loadTokenizer } from '../../src/tokenizer/load-tokenizer.ts';
import type { Tokenizer } from '../../src/tokenizer/tokenizer.ts';
import { FolderFiles } from '../../src/util/model-files.ts';
import { sharedFixture } from '../helpers/fixtures.ts';
import { needsShared } from '../helpers/needs.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const newFolder = temporaryFolders();

function folderOf(files: Readonly<Record<string, string | Uint8Array | object>>): string {
  const folder = newFolder();
  mkdirSync(folder);
  for (const [name, content] of Object.entries(files)) {
    const isRaw = typeof content === 'string' || content instanceof Uint8Array;
    writeFileSync(join(folder, name), isRaw ? content : JSON.stringify(content));
  }
  return folder;
}

async function load(files: Readonly<Record<string, string | Uint8Array | object>>): Promise<Tokenizer> {
  return (await loadTokenizer(new FolderFiles(folderOf(files)))).tokenizer;
}

interface Vector {
  readonly text: string;
  readonly ids: readonly number[];
  readonly decoded: string;
}

function vectorsIn(path: string): Vector[] {
  const lines = readFileSync(path, 'utf8').split('\n').filter(Boolean);
  return lines.map((line): Vector => JSON.parse(line));
}

const goldens = fileURLToPath(new URL('../fixtures/sentencepiece', import.meta.url));
const golden = (name: string) => readFileSync(join(goldens, `${name}.model`));

/** The vectors are those of SentencePiece itself, which puts no token around a text. */
const BARE = { add_bos_token: false, legacy: false };

async function expectVectors(tokenizer: Tokenizer, vectors: readonly Vector[], addSpecialTokens = true) {
  for (const { text, ids, decoded } of vectors) {
    expect([text, await tokenizer.encode(text, { addSpecialTokens })]).toEqual([text, ids]);
    // What SentencePiece writes for an unknown token is its own.
    if (ids.includes(0)) continue;
    expect([text, await tokenizer.decode(ids, { skipSpecialTokens: false })]).toEqual([text, decoded]);
  }
}

describe('a tokenizer published as tokenizer.model only', () => {
  it.each(['unigram', 'unigram-bytes', 'bpe', 'bpe-no-prefix'])(
    'gives the ids and the text of SentencePiece: %s',
    async (name) => {
      const tokenizer = await load({ 'tokenizer.model': golden(name), 'tokenizer_config.json': BARE });
      await expectVectors(tokenizer, vectorsIn(join(goldens, `${name}.jsonl`)));
    },
  );

  it('loses spaces at both ends of a text, and no other white space', async () => {
    const tokenizer = await load({ 'tokenizer.model': golden('unigram'), 'tokenizer_config.json': BARE });
    const ids = await tokenizer.encode('  \u0085a \u0085 ', { addSpecialTokens: false });
    expect(ids).toEqual([3, 0, 11, 3, 0]);
  });

  it('begins and ends texts as tokenizer_config.json says, and as its family does where that says nothing', async () => {
    const encode = async (config: object) => {
      const files = { 'tokenizer.model': golden('bpe'), 'tokenizer_config.json': config };
      return (await load(files)).encode('a', { addSpecialTokens: true });
    };
    const [bare, begun, both] = [BARE, {}, { add_bos_token: true, add_eos_token: true }];
    const ids = await encode(bare);
    expect(await encode(begun)).toEqual([1, ...ids]);
    expect(await encode(both)).toEqual([1, ...ids, 2]);
    expect(await encode({ ...begun, tokenizer_class: 'T5Tokenizer' })).toEqual(ids);
  });

  it('has the tokens of added_tokens.json behind its own', async () => {
    const tokenizer = await load({
      'tokenizer.model': golden('bpe'),
      'tokenizer_config.json': BARE,
      'added_tokens.json': { '<late>': 621, '<|im_end|>': 620 },
    });
    expect(tokenizer.vocabSize).toBe(622);
    const ids = await tokenizer.encode('<|im_end|><late>', { addSpecialTokens: false });
    expect(ids.slice(-2)).toEqual([620, 621]);
  });

  it('has tokens of added_tokens_decoder in the place of those of its own', async () => {
    const named = {
      618: { content: '<|im_end|>', special: true },
      619: { content: '<tool>', special: false },
    };
    const tokenizer = await load({
      'tokenizer.model': golden('bpe'),
      'tokenizer_config.json': {
        ...BARE,
        added_tokens_decoder: { 1: { content: '<s>', special: true }, ...named },
      },
    });
    expect(tokenizer.vocabSize).toBe(620);
    const ids = await tokenizer.encode('<s><|im_end|><tool>', { addSpecialTokens: false });
    expect(ids.slice(-3)).toEqual([1, 618, 619]);
    expect(await tokenizer.decode([618, 619], { skipSpecialTokens: true })).toBe('<tool>');
  });

  it('begins texts as InternLM does', async () => {
    const files = {
      'tokenizer.model': golden('bpe'),
      'tokenizer_config.json': { tokenizer_class: 'InternLM2Tokenizer' },
    };
    expect((await (await load(files)).encode('a', { addSpecialTokens: true }))[0]).toBe(1);
  });

  it('begins texts with a token of added_tokens.json', async () => {
    const tokenizer = await load({
      'tokenizer.model': golden('bpe'),
      'tokenizer_config.json': { add_bos_token: true, bos_token: '<|begin|>', legacy: false },
      'added_tokens.json': { '<|begin|>': 620 },
    });
    const [first] = await tokenizer.encode('a', { addSpecialTokens: true });
    expect(first).toBe(620);
  });

  it.each([
    ['cut off', golden('bpe').subarray(0, 1000), /it ends inside the field at byte/],
    ['no message', Buffer.from('plain text'), /is no SentencePiece model that svc can read/],
    [
      'a vocabulary of tiktoken',
      Buffer.from('IQ== 0\nIg== 1\nIw== 2\n'),
      /is a vocabulary of tiktoken, .* put it there, or name it with --tokenizer/,
    ],
    ['empty', Buffer.alloc(0), /it holds no pieces/],
    ['of words', Buffer.from([10, 3, 10, 1, 97, 18, 2, 24, 3]), /of type 3, neither unigram nor BPE/],
    [
      'of words with spaces behind them',
      Buffer.from([10, 3, 10, 1, 97, 18, 3, 0xc0, 1, 1]),
      /its spaces end words \(treat_whitespace_as_suffix\)/,
    ],
    ['a number without end', Buffer.alloc(64, 0xff), /does not end/],
    [
      'with a piece that is far too long',
      Buffer.concat([Buffer.from([10, 0x84, 4, 10, 0x81, 4]), Buffer.alloc(513, 'a')]),
      /a piece of 513 characters, at most 512 are read/,
    ],
    ['a length of 2^63', Buffer.from([10, ...new Array(9).fill(0xff), 1]), /it ends inside the field/],
  ])('is refused in one line that names the file where it is %s', async (_, bytes, reason) => {
    const loading = load({ 'tokenizer.model': bytes });
    await expect(loading).rejects.toThrow(ModelLoadError);
    await expect(loading).rejects.toThrow(reason);
    await expect(loading).rejects.toThrow(/tokenizer\.model.*expected/);
  });
});

describe('a tokenizer published as vocab.json and merges.txt', () => {
  const bytes = Object.fromEntries(['a', 'b', 'c', 'ab', 'abc', '<|end|>'].map((text, id) => [text, id]));
  const small = { 'vocab.json': bytes, 'merges.txt': '#version: 0.2\na b\r\nab c\n' };

  it('merges in the order of its lines', async () => {
    const tokenizer = await load(small);
    expect(await tokenizer.encode('abcab', { addSpecialTokens: true })).toEqual([4, 3]);
    expect(await tokenizer.decode([4, 3], { skipSpecialTokens: true })).toBe('abcab');
  });

  it('has the special tokens that its settings name', async () => {
    const tokenizer = await load({ ...small, 'special_tokens_map.json': { eos_token: '<|end|>' } });
    expect(await tokenizer.encode('a<|end|>', { addSpecialTokens: true })).toEqual([0, 5]);
    expect(await tokenizer.decode([0, 5], { skipSpecialTokens: true })).toBe('a');
  });

  it('begins and ends texts with tokens of added_tokens.json, by their own ids', async () => {
    const tokenizer = await load({
      ...small,
      'added_tokens.json': { '<|begin|>': 6, '<|late|>': 7 },
      'tokenizer_config.json': {
        bos_token: '<|begin|>',
        eos_token: '<|late|>',
        add_bos_token: true,
        add_eos_token: true,
      },
    });
    expect(await tokenizer.encode('ab', { addSpecialTokens: true })).toEqual([6, 3, 7]);
  });

  it('takes every token that special_tokens_map.json names for no text', async () => {
    const tokenizer = await load({
      ...small,
      'added_tokens.json': { '<|im_start|>': 6, '<|word|>': 7 },
      'special_tokens_map.json': { additional_special_tokens: ['<|im_start|>'] },
    });
    expect(await tokenizer.decode([6, 0, 7], { skipSpecialTokens: true })).toBe('a<|word|>');
  });

  it('names the line that is no merge', async () => {
    const loading = load({ ...small, 'merges.txt': 'a b\na b c\n' });
    await expect(loading).rejects.toThrow(/merges\.txt: line 2 is no merge: expected two tokens/);
  });

  it('is not taken where tokenizer.json is there', async () => {
    await expect(load({ ...small, 'tokenizer.json': '{' })).rejects.toThrow(
      /tokenizer\.json is not valid JSON/,
    );
  });
});

const published = sharedFixture('tokenizers');

describe('the published tokenizers in their older forms', needsShared(published), () => {
  const file = (name: string) => readFileSync(join(published!, name));
  const vectors = (name: string): Vector[] => vectorsIn(join(published!, name, 'hf_vectors.jsonl'));

  it('give the golden ids of Llama 2 from tokenizer.model', async () => {
    const tokenizer = await load({
      'tokenizer.model': file('llama2/tokenizer.model'),
      'tokenizer_config.json': file('llama2/tokenizer_config.json'),
    });
    await expectVectors(tokenizer, vectors('llama2'));
  });

  it('give the golden ids of GPT-2 from vocab.json and merges.txt', async () => {
    const tokenizer = await load({
      'vocab.json': file('gpt2/vocab.json'),
      'merges.txt': file('gpt2/merges.txt'),
      'tokenizer_config.json': file('gpt2/tokenizer_config.json'),
    });
    await expectVectors(tokenizer, vectors('gpt2'));
  });
});
