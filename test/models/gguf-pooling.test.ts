// What is made of the metadata of embedding models and rerankers in GGUF: config.json, the files that say what is pooled, and the tokenizer.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { ModelLoadError } from '../../src/errors.ts';
import { readModelConfig } from '../../src/models/registry.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { loadTokenizer } from '../../src/tokenizer/load-tokenizer.ts';
import { type GgufValue, tensorBytes, writeGguf } from '../fixtures/gguf-writer.ts';
import { mutateBytes, seededDraw } from '../fuzz/mutations.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

type Metadata = Readonly<Record<string, GgufValue>>;
type Shapes = Readonly<Record<string, readonly number[]>>;

const nameFolder = temporaryFolders();

const HEAD: Shapes = { 'cls.weight': [32, 32], 'cls.output.weight': [1, 32] };

/** A file of a few keys and tensors, of which no number is read. */
function file(architecture: string, metadata: Metadata, shapes: Shapes = {}): string {
  const folder = nameFolder();
  mkdirSync(folder);
  const path = join(folder, 'model.gguf');
  const sizes = {
    block_count: 1,
    context_length: 64,
    embedding_length: 32,
    feed_forward_length: 64,
    'attention.head_count': 2,
    'attention.head_count_kv': 2,
    'attention.key_length': 16,
  };
  const all = {
    'token_embd.weight': [32, 32],
    'token_types.weight': [2, 32],
    'position_embd.weight': [48, 32],
    ...shapes,
  };
  writeGguf(
    path,
    {
      'general.architecture': { string: architecture },
      ...Object.fromEntries(Object.entries(sizes).map(([key, u32]) => [`${architecture}.${key}`, { u32 }])),
      ...metadata,
    },
    Object.entries(all).map(([name, shape]) => ({ name, shape, type: 'F32' })),
    (tensor) => [new Uint8Array(tensorBytes(tensor))],
  );
  return path;
}

const configOf = (path: string) => readModelConfig(openModelSource(path));
const kind = (architecture: string, number: number): Metadata => ({
  [`${architecture}.pooling_type`]: { u32: number },
});
const labels = (architecture: string, ...strings: string[]): Metadata => ({
  [`${architecture}.classifier.output_labels`]: { strings },
});

describe('the kind of pooling', () => {
  it.each([
    [1, 'mean'],
    [2, 'cls'],
    [3, 'last'],
  ] as const)('%i takes the states %s of an encoder', (number, rows) => {
    const { pooling } = configOf(file('bert', kind('bert', number)));
    expect(pooling).toMatchObject({ task: 'embed', rows, isNormalized: true, size: 32 });
  });

  it('that is left out, or none, is that of the architecture', () => {
    for (const keys of [{}, kind('bert', 0)]) {
      expect(configOf(file('bert', keys)).pooling).toMatchObject({ task: 'embed', rows: 'cls' });
      expect(configOf(file('modern-bert', keys)).pooling).toMatchObject({ task: 'embed', rows: 'cls' });
    }
    for (const keys of [{}, kind('qwen3', 0)]) expect(configOf(file('qwen3', keys)).pooling).toBeNull();
  });

  it('of a decoder makes it an embedding model', () => {
    const { pooling } = configOf(file('llama', kind('llama', 3)));
    expect(pooling).toMatchObject({ task: 'embed', rows: 'last', dimensions: [] });
    const qwen = openModelSource(file('qwen3', kind('qwen3', 3)));
    expect(readModelConfig(qwen).pooling).toMatchObject({ dimensions: 'any' });
    expect(readModelConfig(qwen, { runner: 'generate', convert: 'auto' }).pooling).toBeNull();
  });

  it('goes on in dense layers where the file has them', () => {
    const dense = { 'dense_2.weight': [48, 32], 'dense_3.weight': [24, 48] };
    const { pooling } = configOf(file('gemma-embedding', kind('gemma-embedding', 1), dense));
    const linear = { hasBias: false, activation: 'none' };
    expect(pooling).toMatchObject({
      rows: 'mean',
      size: 24,
      dense: [
        { ...linear, name: '2_Dense', inputs: 32, outputs: 48 },
        { ...linear, name: '3_Dense', inputs: 48, outputs: 24 },
      ],
    });
  });

  it('of EmbeddingGemma without its dense layers gives other vectors, which a note says', () => {
    const noteOf = (shapes: Shapes) =>
      openModelSource(file('gemma-embedding', kind('gemma-embedding', 1), shapes)).note;
    expect(noteOf({})).toMatch(/converted without the dense layers of EmbeddingGemma \(dense_2, dense_3\)/);
    expect(noteOf({ 'dense_2.weight': [48, 32], 'dense_3.weight': [24, 48] })).toBeNull();
  });
});

describe('a file with a head', () => {
  it.each([
    ['bert', {}],
    ['bert', kind('bert', 4)],
    ['modern-bert', labels('modern-bert', 'LABEL_0')],
  ] as const)('of %s scores, whether or not it says so: %o', (architecture, keys) => {
    const { pooling } = configOf(file(architecture, keys, HEAD));
    expect(pooling).toMatchObject({ task: 'score', head: { kind: 'classifier', numLabels: 1 } });
  });

  it('of ModernBERT scores the mean, unless it says cls', () => {
    expect(configOf(file('modern-bert', {}, HEAD)).pooling).toMatchObject({ rows: 'mean' });
    expect(configOf(file('modern-bert', kind('modern-bert', 2), HEAD)).pooling).toMatchObject({
      rows: 'cls',
    });
  });

  it('of a decoder scores with "yes" and "no", in the words of Qwen 3', () => {
    const path = file(
      'qwen3',
      { ...kind('qwen3', 4), ...labels('qwen3', 'yes', 'no') },
      { 'cls.output.weight': [2, 32] },
    );
    expect(configOf(path).pooling).toMatchObject({
      task: 'score',
      rows: 'last',
      head: { kind: 'classifier', numLabels: 2 },
      prompt: 'qwen3',
    });
  });

  it('has as many positions as rows of them, whatever the context is said to be', () => {
    expect(configOf(file('bert', {})).maxPositionEmbeddings).toBe(48);
  });
});

describe('an embedding model or a reranker in GGUF is refused by name', () => {
  it.each<[string, string, Metadata, Shapes, RegExp]>([
    [
      'with an unknown kind of pooling',
      'bert',
      kind('bert', 9),
      {},
      /bert\.pooling_type must be 0 \(none\), .*, got 9/,
    ],
    [
      'whose kind of pooling is a text',
      'bert',
      { 'bert.pooling_type': { string: 'mean' } },
      {},
      /bert\.pooling_type must be a number/,
    ],
    [
      'that is a decoder which pools the mean',
      'qwen3',
      kind('qwen3', 1),
      {},
      /Qwen3ForCausalLM must pool the last token/,
    ],
    [
      'that is a decoder whose tokens see those after them',
      'llama',
      { ...kind('llama', 3), 'llama.attention.causal': { bool: false } },
      {},
      /tokens see those after them/,
    ],
    [
      'without the head that it says it has',
      'qwen3',
      kind('qwen3', 4),
      {},
      /tensor cls\.output\.weight is missing/,
    ],
    [
      'whose pooler was left out',
      'bert',
      {},
      { 'cls.output.weight': [1, 32] },
      /tensor cls\.weight is missing: converters leave out the pooler of BERT/,
    ],
    ['with a head alone', 'bert', {}, { 'cls.weight': [1, 32] }, /tensor cls\.output\.weight is missing/],
    [
      'that scores and is made of DistilBERT',
      'distil',
      {},
      HEAD,
      /tensor token_types\.weight is missing: rerankers that are made of DistilBERT/,
    ],
    [
      'of several labels',
      'bert',
      {},
      { ...HEAD, 'cls.output.weight': [3, 32] },
      /num_labels must be 1, got 3/,
    ],
    [
      'of two labels that are not yes and no',
      'qwen3',
      { ...kind('qwen3', 4), ...labels('qwen3', 'no', 'yes') },
      { 'cls.output.weight': [2, 32] },
      /num_labels must be 1, got 2/,
    ],
    [
      'whose dense layers do not fit',
      'gemma-embedding',
      kind('gemma-embedding', 1),
      { 'dense_2.weight': [48, 24] },
      /2_Dense: in_features must be 32/,
    ],
  ])('%s', (_, architecture, keys, shapes, message) => {
    const path = architecture === 'distil' ? withoutTypes() : file(architecture, keys, shapes);
    expect(() => configOf(path)).toThrow(ModelLoadError);
    expect(() => configOf(path)).toThrow(message);
  });

  /** Whose name nobody reads. */
  function withoutTypes(): string {
    const path = file('bert', {}, HEAD);
    const bytes = readFileSync(path);
    bytes.write('token_kinds', bytes.indexOf('token_types'));
    writeFileSync(path, bytes);
    return path;
  }

  it.each(['bert-cls', 'xlm-roberta-reranker', 'embedding-gemma', 'qwen3-reranker'])(
    '%s, whatever is damaged in it, or is read',
    (name) => {
      const whole = readFileSync(
        fileURLToPath(new URL(`../fixtures/gguf-pooling/${name}.gguf`, import.meta.url)),
      );
      const path = file('bert', {});
      const draw = seededDraw(11);
      let refused = 0;
      for (let round = 0; round < 400; round += 1) {
        writeFileSync(path, mutateBytes(whole, round % 2 === 0 ? 12_000 : 1500, draw));
        try {
          const source = openModelSource(path);
          for (const part of ['tokenizer.json', 'modules.json', '1_Pooling/config.json'] as const)
            source.read(part);
          readModelConfig(source);
          source.openCheckpoint();
        } catch (error) {
          if (!(error instanceof ModelLoadError) || error.message.length > 2000) throw error;
          refused += 1;
        }
      }
      expect(refused).toBeGreaterThan(100);
    },
  );
});

const PIECES = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '▁cat', 's', '▁Cat', '▁é', '▁e', '▁[', '▁]', '[unused0]'];
const TYPES = [3, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1];

function wordPiece(more: Metadata = {}, tokens: readonly string[] = PIECES): Metadata {
  return {
    'tokenizer.ggml.model': { string: 'bert' },
    'tokenizer.ggml.tokens': { strings: tokens },
    'tokenizer.ggml.token_type': { i32s: TYPES.slice(0, tokens.length) },
    ...more,
  };
}

async function idsOf(path: string, text: string): Promise<readonly number[]> {
  const { tokenizer } = await loadTokenizer(openModelSource(path));
  const ids = await tokenizer.encode(text, { addSpecialTokens: true });
  await tokenizer.close();
  return ids;
}

describe('a vocabulary of WordPiece', () => {
  const lowered = PIECES.map((piece) => (piece === '▁Cat' ? '▁dog' : piece));

  it('without capitals is of a tokenizer that lowers them, and takes off accents', async () => {
    expect(await idsOf(file('bert', wordPiece({}, lowered)), 'Cats É [unused0]')).toEqual([
      2, 4, 5, 8, 9, 1, 10, 3,
    ]);
  });

  it('of an old converter, which took all tokens for pieces, has the special ones of BERT', async () => {
    const keys = { 'tokenizer.ggml.token_type': { i32s: PIECES.map(() => 1) } };
    expect(await idsOf(file('bert', wordPiece(keys, lowered)), 'cat[SEP]s')).toEqual([2, 4, 3, 1, 3]);
  });

  it('with capitals keeps them', async () => {
    expect(await idsOf(file('bert', wordPiece()), 'Cats cats é')).toEqual([2, 6, 5, 4, 5, 7, 3]);
  });

  it('is read as the file says', async () => {
    const keys = {
      'tokenizer.ggml.normalizer.lowercase': { bool: true },
      'tokenizer.ggml.normalizer.strip_accents': { bool: false },
    };
    expect(await idsOf(file('bert', wordPiece(keys)), 'Cats É')).toEqual([2, 4, 5, 7, 3]);
  });

  it('is surrounded by the tokens that the file names', async () => {
    const keys = {
      'tokenizer.ggml.bos_token_id': { u32: 0 },
      'tokenizer.ggml.seperator_token_id': { u32: 2 },
      'tokenizer.ggml.eos_token_id': { u32: 3 },
    };
    expect(await idsOf(file('bert', wordPiece(keys, lowered)), 'cat')).toEqual([0, 4, 2]);
  });

  it('without a token that it needs is refused', () => {
    const source = openModelSource(file('bert', wordPiece({}, ['[PAD]', '[UNK]', '[CLS]'])));
    expect(() => source.read('tokenizer.json')).toThrow(
      /\[SEP\] is no token, and the key tokenizer\.ggml\.seperator_token_id is missing/,
    );
  });
});

describe('pairs of a byte-level vocabulary', () => {
  const keys = {
    'tokenizer.ggml.model': { string: 'gpt2' },
    'tokenizer.ggml.tokens': { strings: ['<s>', '</s>', 'a', 'b'] },
    'tokenizer.ggml.token_type': { i32s: [3, 3, 1, 1] },
    'tokenizer.ggml.bos_token_id': { u32: 0 },
    'tokenizer.ggml.eos_token_id': { u32: 1 },
    'tokenizer.ggml.add_bos_token': { bool: true },
    'tokenizer.ggml.add_eos_token': { bool: true },
  };

  it.each([
    ['bert', 'roberta-bpe', [0, 2, 1, 1, 3, 1]],
    ['modern-bert', 'modern-bert', [0, 2, 1, 3, 1]],
  ])('of %s are joined as the original joins them', async (architecture, pre, expected) => {
    const path = file(architecture, { ...keys, 'tokenizer.ggml.pre': { string: pre } });
    const { tokenizer } = await loadTokenizer(openModelSource(path));
    const options = { addSpecialTokens: true, maxTokens: 9, isCut: false };
    const { ids } = await tokenizer.encodeJoined(['a', 'b'], options);
    expect([...ids]).toEqual(expected);
    await tokenizer.close();
  });
});
