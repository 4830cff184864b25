import { spawnSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { InvalidRequestError, ModelLoadError } from '../../src/errors.ts';
import { GgufSource } from '../../src/models/source/gguf/gguf-source.ts';
import { loadTokenizer } from '../../src/tokenizer/load-tokenizer.ts';
import { probeTokenizer } from '../../src/tokenizer/probe-tokenizer.ts';
import { FolderFiles } from '../../src/util/model-files.ts';
import { byteFallbackTokenizer, byteLevelTokenizer, wordTokenizer } from '../helpers/small-tokenizers.ts';
import { turnsDuring } from '../helpers/turns.ts';

const HELLO = [{ role: 'user', content: 'Hello' }];

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc-tokenizer-'));
  await write('tokenizer.json', byteLevelTokenizer());
});
afterEach(() => rm(folder, { recursive: true }));

const write = (file: string, content: string | object) =>
  writeFile(join(folder, file), typeof content === 'string' ? content : JSON.stringify(content));

async function rendered(tools: readonly object[] | null = null): Promise<string | undefined> {
  const { chatTemplate } = await loadTokenizer(new FolderFiles(folder));
  try {
    return await chatTemplate?.render(HELLO, { addGenerationPrompt: false, tools });
  } finally {
    await chatTemplate?.close();
  }
}

async function refusal(): Promise<string> {
  const error: unknown = await loadTokenizer(new FolderFiles(folder)).catch((cause: unknown) => cause);
  expect(error).toBeInstanceOf(ModelLoadError);
  return error instanceof Error ? error.message : '';
}

it('decoding a long list of ids leaves turns to others', async () => {
  const { tokenizer } = await loadTokenizer(new FolderFiles(folder));
  const [id = 0] = await tokenizer.encode('a', { addSpecialTokens: false });
  const decoded = tokenizer.decode(new Array(300_000).fill(id), { skipSpecialTokens: true });
  expect(await turnsDuring(decoded)).toBeGreaterThan(5);
  expect(await decoded).toBe('a'.repeat(300_000));
});

describe('loading a tokenizer', () => {
  it('needs no more than tokenizer.json', async () => {
    const { tokenizer, chatTemplate } = await loadTokenizer(new FolderFiles(folder));
    expect(tokenizer.vocabSize).toBe(259);
    expect(tokenizer.eosTokenId).toBeNull();
    expect(chatTemplate).toBeNull();
  });

  it('takes a tokenizer.json that has no decoder at all', async () => {
    const { decoder: _, ...file } = Object.fromEntries(Object.entries(byteLevelTokenizer()));
    await write('tokenizer.json', file);
    expect((await loadTokenizer(new FolderFiles(folder))).tokenizer.vocabSize).toBe(259);
  });

  it.each([
    ['a text', '<|end|>'],
    ['an object', { content: '<|end|>', special: true }],
  ])('finds the end token written as %s', async (_, eos_token) => {
    await write('tokenizer_config.json', { eos_token, bos_token: null });
    expect((await loadTokenizer(new FolderFiles(folder))).tokenizer.eosTokenId).toBe(256);
  });

  it('ignores the padding and truncation that a file brings from training', async () => {
    const truncation = { direction: 'Right', max_length: 2, strategy: 'LongestFirst', stride: 0 };
    await write('tokenizer.json', { ...byteLevelTokenizer(), truncation });
    const { tokenizer } = await loadTokenizer(new FolderFiles(folder));
    expect(await tokenizer.encode('abcdef', { addSpecialTokens: true })).toHaveLength(6);
  });

  it('leaves out ids that the vocabulary does not have', async () => {
    const { tokenizer } = await loadTokenizer(new FolderFiles(folder));
    expect(await tokenizer.decode([64, 9999, 65], { skipSpecialTokens: true })).toBe('ab');
  });

  it('reads the template of tokenizer_config.json with its special tokens', async () => {
    await write('tokenizer_config.json', {
      bos_token: '<s>',
      chat_template: '{{ bos_token }}{{ messages[0].content }}',
    });
    expect(await rendered()).toBe('<s>Hello');
  });

  it('takes the default of several named templates, and that for tools where there are some', async () => {
    await write('tokenizer_config.json', {
      chat_template: [
        { name: 'tool_use', template: 'tools' },
        { name: 'default', template: 'plain' },
      ],
    });
    expect(await rendered()).toBe('plain');
    expect(await rendered([{ type: 'function' }])).toBe('tools');
  });

  it('reads chat_template.json where the config has none', async () => {
    await write('chat_template.json', { chat_template: 'from json' });
    expect(await rendered()).toBe('from json');
  });

  it('prefers chat_template.jinja to all others', async () => {
    await write('chat_template.jinja', 'from jinja');
    await write('tokenizer_config.json', { chat_template: 'from config' });
    expect(await rendered()).toBe('from jinja');
  });
});

describe('tokens that only tokenizer_config.json names', () => {
  const named = (content: string, special: boolean) => ({
    content,
    special,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
  });
  const load = async (added_tokens_decoder: object, rest: object = {}) => {
    await write('tokenizer_config.json', { added_tokens_decoder, ...rest });
    return (await loadTokenizer(new FolderFiles(folder))).tokenizer;
  };

  it('are one token each, in the order of their ids, and may be the end token', async () => {
    const added = { 300: named('<late>', false), 259: named('<|eot|>', true) };
    const tokenizer = await load(added, { eos_token: '<|eot|>' });
    expect(tokenizer.vocabSize).toBe(261);
    expect(tokenizer.eosTokenId).toBe(259);
    expect(await tokenizer.encode('<|eot|><late>', { addSpecialTokens: false })).toEqual([259, 260]);
  });

  it('are left out of the text where they are special', async () => {
    const tokenizer = await load({ 259: named('<|eot|>', true), 260: named('<call>', false) });
    expect(await tokenizer.decode([64, 259, 260], { skipSpecialTokens: true })).toBe('a<call>');
    expect(await tokenizer.decode([64, 259, 260], { skipSpecialTokens: false })).toBe('a<|eot|><call>');
  });

  it('may make a token of tokenizer.json special, and keep its id', async () => {
    const tokenizer = await load({ 257: named('<tool>', true) });
    expect(tokenizer.vocabSize).toBe(259);
    expect(await tokenizer.encode('<tool>', { addSpecialTokens: false })).toEqual([257]);
    expect(await tokenizer.decode([64, 257], { skipSpecialTokens: true })).toBe('a');
  });

  it('change nothing where tokenizer.json names them as well', async () => {
    const tokenizer = await load({ 256: named('<|end|>', true), 257: named('<tool>', false) });
    expect(tokenizer.vocabSize).toBe(259);
  });

  it('must have a text', async () => {
    await write('tokenizer_config.json', { added_tokens_decoder: { 259: { special: true } } });
    expect(await refusal()).toMatch(
      /tokenizer_config\.json: added_tokens_decoder\.259\.content is missing: it must be a string/,
    );
  });
});

describe('a tokenizer that cannot be loaded', () => {
  it('says that there is none, and what serves without it', async () => {
    await rm(join(folder, 'tokenizer.json'));
    expect(await refusal()).toBe(
      `${folder} holds no tokenizer: expected tokenizer.json, tokenizer.model, or vocab.json with merges.txt; ` +
        'use --tokenizer to take that of another model, or --skip-tokenizer-init to serve token ids only',
    );
  });

  it('names the metadata in which that of a GGUF file is looked for', async () => {
    const file = fileURLToPath(new URL('../fixtures/gguf/gpt2.gguf', import.meta.url));
    await expect(loadTokenizer(new GgufSource(file))).rejects.toThrow(
      `${file} holds no tokenizer: expected one in its metadata (tokenizer.ggml.model); use --tokenizer`,
    );
  });

  it('says where the JSON of a file breaks off', async () => {
    await write('tokenizer.json', JSON.stringify(byteFallbackTokenizer()).slice(0, 200));
    expect(await refusal()).toMatch(/tokenizer\.json is not valid JSON: .*200/);
  });

  it('names the field that is wrong', async () => {
    await write('tokenizer_config.json', { eos_token: 7 });
    expect(await refusal()).toMatch(/tokenizer_config\.json: eos_token must be /);
  });

  it('names a decoder that it does not know, and those that it does', async () => {
    await write('tokenizer.json', wordTokenizer(['a'], { type: 'CTC', pad_token: '_' }));
    expect(await refusal()).toMatch(/decoder CTC cannot be read: expected ByteLevel/);
  });

  it('says that a pattern of the decoder cannot be read', async () => {
    const decoder = { type: 'Replace', pattern: { Regex: '(' }, content: '' };
    await write('tokenizer.json', { ...byteLevelTokenizer(), decoder });
    expect(await refusal()).toMatch(/tokenizer\.json is no tokenizer that can be read: ./);
  });

  it('passes on what the library says of a model section that is wrong', async () => {
    await write('tokenizer.json', { ...byteLevelTokenizer(), model: { type: 'Telepathy', vocab: { a: 0 } } });
    expect(await refusal()).toMatch(/tokenizer\.json is no tokenizer that can be read: ./);
  });

  it('asks for a default when templates are named and none is it', async () => {
    await write('tokenizer_config.json', {
      chat_template: [
        { name: 'rag', template: 'r' },
        { name: 'tool_use', template: 't' },
      ],
    });
    expect(await refusal()).toMatch(/templates rag, tool_use, expected one named "default"/);
  });
});

it('a loaded tokenizer tells how many tokens a text has at least, never too many', async () => {
  const { tokenizer } = await loadTokenizer(new FolderFiles(folder));
  const text = '<|end|> naïve 😀 '.repeat(50);
  const ids = await tokenizer.encode(text, { addSpecialTokens: false });
  expect(tokenizer.minTokens(text)).toBeGreaterThan(100);
  expect(tokenizer.minTokens(text)).toBeLessThanOrEqual(ids.length);
  expect(tokenizer.minTokens('<|end|>'.repeat(50))).toBe(50);
});

describe('a tokenizer file that is damaged', () => {
  const template = { type: 'TemplateProcessing', pair: [], special_tokens: {} };
  it.each([
    [
      'a template with a special token that it does not list',
      { post_processor: { ...template, single: [{ SpecialToken: { id: '<s>', type_id: 0 } }] } },
      'no entry found for key',
    ],
    [
      'a template of a second text that there is not',
      { post_processor: { ...template, single: [{ Sequence: { id: 'B', type_id: 0 } }] } },
      'index out of bounds',
    ],
    [
      'a table of characters that ends too early',
      { normalizer: { type: 'Precompiled', precompiled_charsmap: 'AAAA' } },
      'Cannot parse precompiled_charsmap',
    ],
    [
      'a table of characters without entries',
      { normalizer: { type: 'Precompiled', precompiled_charsmap: Buffer.alloc(12).toString('base64') } },
      'index out of bounds',
    ],
    [
      'a replacement of nothing',
      { normalizer: { type: 'Replace', pattern: { String: '' }, content: 'x' } },
      'index out of bounds',
    ],
  ])('refuses %s, which would end the process', async (_, damage, reason) => {
    await write('tokenizer.json', { ...byteLevelTokenizer(), ...damage });
    const message = await refusal();
    expect(message).toContain(
      `${join(folder, 'tokenizer.json')} is damaged: the tokenizer library fails on it`,
    );
    expect(message).toContain(reason);
  });

  it('refuses an id up to which no table has room', async () => {
    const text = JSON.stringify(byteLevelTokenizer()).replace('"!":0', '"!":2000000000');
    await write('tokenizer.json', text);
    expect(await refusal()).toMatch(
      /tokenizer\.json is no .*: the token "!" has the id 2000000000, expected ids below 4194304; fetch/,
    );
  });

  it('refuses a decoder whose sequences are as deep in each other as no reader goes', async () => {
    let decoder: object = { type: 'Fuse' };
    for (let depth = 0; depth < 1500; depth++) decoder = { type: 'Sequence', decoders: [decoder] };
    await write('tokenizer.json', { ...byteLevelTokenizer(), decoder });
    expect(await refusal()).toMatch(/is no tokenizer that can be read: recursion limit exceeded/);
  });

  it('takes a pattern of a megabyte, and refuses one that would look for ever', async () => {
    const split = (Regex: string) => ({
      type: 'Split',
      pattern: { Regex },
      behavior: 'Isolated',
      invert: false,
    });
    await write('tokenizer.json', { ...byteLevelTokenizer(), pre_tokenizer: split('a'.repeat(1_000_000)) });
    expect((await loadTokenizer(new FolderFiles(folder))).tokenizer.vocabSize).toBe(259);
    await write('tokenizer.json', { ...byteLevelTokenizer(), pre_tokenizer: split('(a+)+$|(.+)+=') });
    expect(await refusal()).toMatch(/is damaged: the tokenizer library fails on it \(.*retry-limit/);
  });

  it('is found out where its rules make a short text take all memory', async () => {
    const grow = { type: 'Replace', pattern: { String: 'a' }, content: 'a'.repeat(3000) };
    const normalizer = { type: 'Sequence', normalizers: [grow, grow, grow] };
    const text = JSON.stringify({ ...byteLevelTokenizer(), normalizer });
    expect(await probeTokenizer(text, 300 * 2 ** 20)).toBe('it takes more than 300 MiB for a short text');
  });

  it('says that the vocabulary is missing', async () => {
    await write('tokenizer.json', { ...byteLevelTokenizer(), model: { type: 'BPE', merges: [] } });
    expect(await refusal()).toContain('model.vocab is missing');
  });

  it('refuses a text, not the model, where the vocabulary lacks a token for what is unknown', async () => {
    const model = { type: 'WordLevel', unk_token: '[UNK]', vocab: { a: 0 } };
    await write('tokenizer.json', { ...byteLevelTokenizer(), model, pre_tokenizer: null });
    const { tokenizer } = await loadTokenizer(new FolderFiles(folder));
    expect(await tokenizer.encode('a', { addSpecialTokens: true })).toEqual([0]);
    await expect(tokenizer.encode('b', { addSpecialTokens: true })).rejects.toThrow(InvalidRequestError);
    await expect(tokenizer.encode('b', { addSpecialTokens: true })).rejects.toThrow('cannot encode the text');
  });

  it.each(['tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja'])(
    'refuses a pipe in the place of %s at once',
    async (file) => {
      await rm(join(folder, file), { force: true });
      expect(spawnSync('mkfifo', [join(folder, file)]).status).toBe(0);
      expect(await refusal()).toContain(`${file} must be a file, it is a pipe or device`);
    },
  );
});
