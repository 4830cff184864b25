// GGUF files of Gemma 4: what they say of their layers, and their tokenizer, which is of a kind of its own.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ModelLoadError } from '../../src/errors.ts';
import { readGenerationConfig } from '../../src/models/generation-config.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { loadTokenizer } from '../../src/tokenizer/load-tokenizer.ts';
import { type GgufValue, writeGguf } from '../fixtures/gguf-writer.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const newFolder = temporaryFolders();

const u32 = (value: number): GgufValue => ({ u32: value });
const i32s = (...values: number[]): GgufValue => ({ i32s: values });

type Metadata = Readonly<Record<string, GgufValue | undefined>>;

/** A file of metadata, of embeddings, and of what frequencies are divided by. */
function fileOf(metadata: Metadata, divisors: readonly number[] = [1, 1, 1e30, 1e30]): string {
  const folder = newFolder();
  mkdirSync(folder);
  const path = join(folder, 'model.gguf');
  const present = Object.entries(metadata).flatMap(([key, value]) => (value ? [[key, value] as const] : []));
  const keys = { 'general.architecture': { string: 'gemma4' }, ...Object.fromEntries(present) };
  const embeddings = { name: 'token_embd.weight', type: 'F32', shape: [8, 4] } as const;
  const frequencies = { name: 'rope_freqs.weight', type: 'F32', shape: [divisors.length] } as const;
  const tensors = divisors.length === 0 ? [embeddings] : [embeddings, frequencies];
  writeGguf(path, keys, tensors, ({ name }) => [
    new Uint8Array(Float32Array.from(name === frequencies.name ? divisors : Array(32).fill(0)).buffer),
  ]);
  return path;
}

/** Layers with a window have 2 heads of 4 for keys and values, those without 1 of 8; the last two see the keys of others. */
const LAYERS: Metadata = {
  'gemma4.block_count': u32(4),
  'gemma4.context_length': u32(64),
  'gemma4.embedding_length': u32(4),
  'gemma4.feed_forward_length': i32s(6, 6, 12, 12),
  'gemma4.attention.head_count': u32(4),
  'gemma4.attention.head_count_kv': i32s(2, 1, 2, 1),
  'gemma4.attention.key_length': u32(8),
  'gemma4.attention.value_length': u32(8),
  'gemma4.attention.key_length_swa': u32(4),
  'gemma4.attention.value_length_swa': u32(4),
  'gemma4.attention.sliding_window': u32(5),
  'gemma4.attention.sliding_window_pattern': { bools: [true, false, true, false] },
  'gemma4.attention.shared_kv_layers': u32(2),
  'gemma4.rope.dimension_count': u32(8),
  'gemma4.rope.dimension_count_swa': u32(4),
};

describe('the keys of a GGUF file of Gemma 4', () => {
  const read = (metadata: Metadata, divisors?: readonly number[]) =>
    readModelConfig(openModelSource(fileOf({ ...LAYERS, ...metadata }, divisors)));

  it('say what each layer has of its own', () => {
    const near = { kvHeads: 2, headDim: 4, rotaryDim: 4, valuesAreKeys: false };
    const far = { kvHeads: 1, headDim: 8, rotaryDim: 8, valuesAreKeys: true };
    const local = { kind: 'default', theta: 10_000 };
    const wide = { kind: 'proportional', theta: 1_000_000, factor: 1, share: 0.5 };
    expect(read({})).toMatchObject({
      layerHeads: [near, far, near, far],
      layerWindows: [5, null, 5, null],
      layerRopes: [local, wide, local, wide],
      intermediateSize: 6,
      sharedKeys: { sources: [0, 1, 0, 1] },
      layerWidths: [6, 6, 12, 12],
      layerInputs: null,
      experts: null,
    });
  });

  it('may say the same of all layers at once', () => {
    const same = { 'gemma4.attention.head_count_kv': u32(2), 'gemma4.feed_forward_length': u32(6) };
    const { layerHeads, layerWidths, numKvHeads, intermediateSize } = read(same);
    expect(layerHeads?.map(({ kvHeads }) => kvHeads)).toEqual([2, 2, 2, 2]);
    expect([numKvHeads, intermediateSize, layerWidths]).toEqual([2, 6, null]);
  });

  it.each<[Metadata, RegExp]>([
    [
      { 'gemma4.attention.sliding_window_pattern': undefined },
      /the key gemma4\.attention\.sliding_window_pattern is missing/,
    ],
    [{ 'gemma4.attention.sliding_window_pattern': u32(6) }, /sliding_window_pattern must be a list/],
    [
      { 'gemma4.attention.sliding_window_pattern': { bools: [true, false] } },
      /layer_types must name 4 layers, got 2/,
    ],
    [
      { 'gemma4.attention.sliding_window': undefined },
      /the key gemma4\.attention\.sliding_window is missing/,
    ],
    [
      { 'gemma4.attention.key_length_swa': undefined },
      /the key gemma4\.attention\.key_length_swa is missing/,
    ],
    [
      { 'gemma4.attention.head_count_kv': i32s(2, 1) },
      /gemma4\.attention\.head_count_kv must have 4 items, one for each layer, it has 2/,
    ],
    [
      { 'gemma4.attention.head_count_kv': i32s(2, 1, 4, 1) },
      /gemma4\.attention\.head_count_kv differs between layers/,
    ],
    [{ 'gemma4.attention.head_count_kv': i32s(2, 3, 2, 3) }, /num_attention_heads must be a multiple of/],
    [
      { 'gemma4.feed_forward_length': i32s(6, 6, 18, 18) },
      /feed_forward_length must be 6 or 12 in the last layers, .* got 18/,
    ],
    [{ 'gemma4.feed_forward_length': i32s(6, 7, 6, 6) }, /feed_forward_length differs between layers/],
    [
      { 'gemma4.attention.shared_kv_layers': u32(3), 'gemma4.feed_forward_length': u32(6) },
      /num_kv_shared_layers must leave a layer of each kind/,
    ],
    [
      { 'gemma4.attention.value_length': u32(16) },
      /heads of 8 numbers in keys, of which 8 are rotated, and 16 in values are not served/,
    ],
    [{ 'gemma4.rope.dimension_count_swa': u32(2) }, /heads of 4 numbers in keys, of which 2 are rotated/],
    [{ 'gemma4.expert_count': u32(4) }, /top_k_experts/],
  ])('are refused by name: %j, %s', (metadata, message) => {
    expect(() => read(metadata)).toThrow(ModelLoadError);
    expect(() => read(metadata)).toThrow(message);
  });

  it.each([[[]], [[1, 1, 1e30]], [[1, 1, 8, 8]], [[1, 1e30, 1, 1e30]], [[1e30, 1e30, 1e30, 1e30]]])(
    'are refused with frequencies divided by %j',
    (divisors) => {
      expect(() => read({}, divisors)).toThrow(/tensor rope_freqs\.weight must hold 4 numbers, 1 for each/);
    },
  );
});

const SPECIAL = ['<pad>', '<eos>', '<bos>', '<unk>', '<mask>', '<|turn>', '<turn|>'];
/** Special, too, but not by what converters call them. */
const MARKS = ['<|tool_call>', '<tool_call|>', '<|tool_response>'];
const BYTES = Array.from(
  { length: 256 },
  (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`,
);
const PIECES = [
  '\n',
  '\n\n',
  '▁',
  '▁▁',
  'a',
  'b',
  'ab',
  '▁a',
  '▁ab',
  'ba',
  '\uFEFFa',
  '\uFEFF',
  'é',
  '>',
  '>▁',
];
const TOKENS = [...SPECIAL, ...MARKS, ...BYTES, ...PIECES];
const MERGES = ['\n \n', '▁ ▁', '> ▁', 'a b', '▁ a', '▁ ab', 'b a', '▁a b', '\uFEFF a'];

/** As releases publish it (GemmaTokenizer of transformers). */
const PUBLISHED = {
  version: '1.0',
  truncation: null,
  padding: null,
  added_tokens: [...SPECIAL, ...MARKS].map((content, id) => ({
    ...{ id, content, special: true },
    ...{ single_word: false, lstrip: false, rstrip: false, normalized: false },
  })),
  normalizer: { type: 'Replace', pattern: { String: ' ' }, content: '▁' },
  pre_tokenizer: { type: 'Split', pattern: { String: ' ' }, behavior: 'MergedWithPrevious', invert: false },
  post_processor: {
    type: 'TemplateProcessing',
    single: [{ SpecialToken: { id: '<bos>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
    pair: [{ Sequence: { id: 'A', type_id: 0 } }, { Sequence: { id: 'B', type_id: 1 } }],
    special_tokens: { '<bos>': { id: '<bos>', ids: [2], tokens: ['<bos>'] } },
  },
  decoder: {
    type: 'Sequence',
    decoders: [
      { type: 'Replace', pattern: { String: '▁' }, content: ' ' },
      { type: 'ByteFallback' },
      { type: 'Fuse' },
    ],
  },
  model: {
    type: 'BPE',
    ...{ dropout: null, unk_token: '<unk>', fuse_unk: true, byte_fallback: true, ignore_merges: false },
    ...{ continuing_subword_prefix: null, end_of_word_suffix: null },
    vocab: Object.fromEntries(TOKENS.map((text, id) => [text, id])),
    merges: MERGES.map((merge) => merge.split(' ')),
  },
};

const typeOf = (text: string): number => {
  if (SPECIAL.includes(text)) return 3;
  if (MARKS.includes(text)) return 4;
  return BYTES.includes(text) ? 6 : 1;
};

const VOCABULARY: Metadata = {
  'tokenizer.ggml.model': { string: 'gemma4' },
  'tokenizer.ggml.tokens': { strings: TOKENS },
  'tokenizer.ggml.scores': { f32s: TOKENS.map(() => 0) },
  'tokenizer.ggml.token_type': i32s(...TOKENS.map(typeOf)),
  'tokenizer.ggml.merges': { strings: MERGES },
  'tokenizer.ggml.bos_token_id': u32(2),
  'tokenizer.ggml.eos_token_id': u32(1),
  'tokenizer.ggml.unknown_token_id': u32(3),
  'tokenizer.ggml.add_space_prefix': { bool: false },
  'tokenizer.ggml.add_bos_token': { bool: true },
};

describe('the tokenizer of a GGUF file of Gemma 4', () => {
  it('has the tokens and the texts of the original', async () => {
    const folder = newFolder();
    mkdirSync(folder);
    writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(PUBLISHED));
    writeFileSync(join(folder, 'tokenizer_config.json'), '{"bos_token": "<bos>", "eos_token": "<eos>"}');
    const loaded = await Promise.all(
      [folder, fileOf({ ...LAYERS, ...VOCABULARY })].map((path) => loadTokenizer(openModelSource(path))),
    );
    const [expected, got] = loaded.map(({ tokenizer }) => tokenizer);
    const texts = [
      ' ab  a\n\n\nab',
      '<|turn>user\nab<turn|>\n<|tool_call>a<tool_call|>',
      'a> ab>  b',
      '漢é\uFEFFa',
      '',
    ];
    for (const text of texts) {
      const ids = await expected!.encode(text, { addSpecialTokens: true });
      expect(await got!.encode(text, { addSpecialTokens: true })).toEqual(ids);
      for (const skipSpecialTokens of [true, false]) {
        const options = { skipSpecialTokens };
        expect(await got!.decode(ids, options)).toBe(await expected!.decode(ids, options));
      }
    }
    await Promise.all(loaded.map(({ tokenizer }) => tokenizer.close()));
  });

  it('is refused without merges', () => {
    const source = openModelSource(fileOf({ ...LAYERS, ...VOCABULARY, 'tokenizer.ggml.merges': undefined }));
    expect(() => source.read('tokenizer.json')).toThrow(/the key tokenizer\.ggml\.merges is missing/);
  });

  it('ends an answer where a turn ends and where a tool is to answer, whichever of them the file names', () => {
    const endsOf = (id: number) => {
      const metadata = { ...LAYERS, ...VOCABULARY, 'tokenizer.ggml.eos_token_id': u32(id) };
      const source = openModelSource(fileOf(metadata));
      return readGenerationConfig(source, { source: 'auto', override: null }).eosTokenIds?.toSorted(
        (a, b) => a - b,
      );
    };
    expect(endsOf(1)).toEqual([1, 6, 9]);
    expect(endsOf(6)).toEqual([1, 6, 9]);
  });

  it('names tokens that are in no answer', () => {
    const suppressed = (more: Metadata) => {
      const source = openModelSource(fileOf({ ...LAYERS, ...VOCABULARY, ...more }));
      return readGenerationConfig(source, { source: 'auto', override: null }).suppressedTokenIds;
    };
    expect(suppressed({ 'tokenizer.ggml.suppress_tokens': i32s(5, 4) })).toEqual([5, 4]);
    expect(suppressed({})).toEqual([]);
  });
});
