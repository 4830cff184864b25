// How the tokenizers of GGUF files cut text into words, by the names in the files.

import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { loadTokenizer } from '../../src/tokenizer/load-tokenizer.ts';
import { writeGgufModel } from '../fixtures/gguf-model.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const newFolder = temporaryFolders();

/** As byte-level vocabularies write the bytes of a text. */
function spelled(text: string): string[] {
  const shifted = [...Array(256).keys()].filter((byte) => !isShown(byte));
  return [...Buffer.from(text)].map((byte) =>
    String.fromCharCode(isShown(byte) ? byte : 256 + shifted.indexOf(byte)),
  );
}

function isShown(byte: number): boolean {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

/** A vocabulary in which each word is a token, and so are any two neighbours, which are merged where nothing cuts between them. */
function vocabularyOf(words: readonly string[]) {
  const tokens = new Set(words.flatMap(spelled));
  const merges = new Set<string>();
  const merge = (left: string, right: string): string => {
    merges.add(`${left} ${right}`);
    tokens.add(left + right);
    return left + right;
  };
  const wholes = words.map((word) => spelled(word).reduce(merge));
  for (const [i, whole] of wholes.slice(1).entries()) merge(wholes[i]!, whole);
  const strings = [...tokens];
  return {
    'tokenizer.ggml.tokens': { strings },
    'tokenizer.ggml.token_type': { i32s: strings.map(() => 1) },
    'tokenizer.ggml.merges': { strings: [...merges] },
    'tokenizer.ggml.bos_token_id': undefined,
    'tokenizer.ggml.eos_token_id': undefined,
    'tokenizer.ggml.add_bos_token': { bool: false },
  };
}

/** The words of the text that stay words. */
async function cutsOf(pre: string, words: readonly string[]): Promise<string[]> {
  const folder = newFolder();
  writeTinyModel(folder);
  const path = join(folder, 'model.gguf');
  const metadata = { ...vocabularyOf(words), 'tokenizer.ggml.pre': { string: pre } };
  writeGgufModel(folder, path, { metadata });
  const { tokenizer } = await loadTokenizer(openModelSource(path));
  const ids = await tokenizer.encode(words.join(''), { addSpecialTokens: false });
  const decode = (id: number) => tokenizer.decode([id], { skipSpecialTokens: false });
  const cuts = await Promise.all(Array.from(ids, decode));
  await tokenizer.close();
  return cuts;
}

/** What the package `tokenizers` makes of a text by the steps of the published tokenizer.json. */
const PUBLISHED: readonly (readonly [string, readonly string[]])[] = [
  [
    'deepseek-llm',
    ['I', "'", 'm', ' ', '4', '2', '!', ' ', '\n', '\n', ' ', ' é', '日本語한국', ' x', ' =', ' y'],
  ],
  ['deepseek-llm', ['na', 'ï', 've', ' Ç', 'A', ' 𝐱«', 'Ω', '≈', 'ç', '» ', '½', '  ']],
  [
    'deepseek-coder',
    ['I', "'", 'm', ' ', '4', '2', '!', ' ', '\n', '\n', ' ', ' é', '日本語한국', ' x', ' =', ' y'],
  ],
  ['deepseek-coder', ['naïve', ' ÇA', ' 𝐱', '«', 'Ω', '≈', 'ç', '»', ' ', '½', '  ']],
  [
    'seed-coder',
    ['I', "'m", ' ', '4', '2', '!', ' \n\n', ' ', ' é日本語한국', ' x', ' =', ' y', '+', '1', ';', '  '],
  ],
  [
    'qwen35',
    [
      'I',
      "'m",
      ' ',
      ' ',
      '4',
      '2',
      '!',
      ' \n\n',
      ' नमस्ते',
      ' हिंदी',
      ',',
      ' x',
      ' =',
      ' y',
      ';',
      ' ก็ดี',
      ' q̃',
      '  ',
    ],
  ],
  [
    'kimi-k2',
    ["I'm", ' ', '42', '!', ' \n\n', ' ', ' é', '日本語', '한국', ' x', ' =', ' foo', 'Bar', ' //', '  '],
  ],
];

describe('a byte-level vocabulary of a GGUF file', () => {
  it.each(PUBLISHED)('is applied to the words of %s: %j', async (pre, words) => {
    expect(await cutsOf(pre, words)).toEqual(words);
  });

  it('is not applied to words that are not cut', async () => {
    expect(await cutsOf('gpt-2', ['foo', 'Bar'])).toEqual(['fooBar']);
  });

  it.each([
    ['gpt-2', ['mellum', 'a.x-4.0', 'gigachat', 'trillion', 'exaone4']],
    ['llama-bpe', ['midm-2.0', 'lfm2', 'falcon-h1']],
    ['qwen2', ['kormo', 'megrez', 'qwen35']],
    ['gpt-4o', ['kanana2', 'minimax-m2']],
  ])('is cut as by %s: %j', async (known, names) => {
    const words = ["I'm", ' ', '1', '2', '3', '4', ' foo', 'Bar', ' \n', '\n', ' x', ' //'];
    const expected = await cutsOf(known, words);
    for (const name of names) expect(await cutsOf(name, words)).toEqual(expected);
  });
});
