import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadTokenizer } from '../../src/tokenizer/load-tokenizer.ts';
import type { Tokenizer } from '../../src/tokenizer/tokenizer.ts';
import { FolderFiles } from '../../src/util/model-files.ts';
import { sharedFixture } from '../helpers/fixtures.ts';
import { needsShared } from '../helpers/needs.ts';

/** What another program makes of a text. */
interface Vector {
  readonly text: string;
  readonly ids: readonly number[];
  readonly hasSpecialTokens: boolean;
}

const read = (path: string): string | null => {
  const found = sharedFixture(`tokenizers/${path}`);
  return found === null ? null : readFileSync(found, 'utf8');
};

/** Texts with a line between them, and a line of ids for each. */
function llamaCppVectors(name: string): Vector[] {
  const texts = read(`${name}/llama_cpp_vectors.inp`)?.split('\n__ggml_vocab_test__\n') ?? [];
  const lines = read(`${name}/llama_cpp_vectors.out`)?.split('\n') ?? [];
  return texts.map((text, index) => ({
    text,
    ids: (lines[index] ?? '').trim().split(/ +/).filter(Boolean).map(Number),
    hasSpecialTokens: false,
  }));
}

function longTextVectors(name: string): Vector[] {
  const text = read(`${name}/swift_encoded.json`);
  if (text === null) return [];
  const vector: { text: string; token_ids: number[] } = JSON.parse(text);
  return [{ text: vector.text, ids: vector.token_ids, hasSpecialTokens: true }];
}

function shortTextVectors(key: string): Vector[] {
  const text = read('swift_tokenizer_tests.json');
  if (text === null) return [];
  const all: Record<string, { input: string; encoded: { input_ids: number[] } }[]> = JSON.parse(text);
  return (all[key] ?? []).map(({ input, encoded }) => ({
    text: input,
    ids: encoded.input_ids,
    hasSpecialTokens: true,
  }));
}

function entryVectors(name: string): Vector[] {
  const text = read(`${name}/encodings.json`);
  if (text === null) return [];
  const { entries }: { entries: { text: string; ids: number[]; ids_special: number[] }[] } = JSON.parse(text);
  return entries.flatMap(({ text: input, ids, ids_special }) => [
    { text: input, ids, hasSpecialTokens: false },
    { text: input, ids: ids_special, hasSpecialTokens: true },
  ]);
}

const TOKENIZERS: readonly (readonly [name: string, shortTexts: string])[] = [
  ['gpt2', 'distilgpt2'],
  ['llama2', 'coreml-projects/Llama-2-7b-chat-coreml'],
  ['llama3.1', 'pcuenq/Llama-3.2-1B-Instruct-tokenizer'],
  ['mistral-7b-v0.3', ''],
  ['phi3', ''],
];

const cases = TOKENIZERS.map(([name, shortTexts]) => {
  const vectors = [
    ...llamaCppVectors(name),
    ...longTextVectors(name),
    ...shortTextVectors(shortTexts),
    ...entryVectors(name),
  ];
  return { name, vectors, count: vectors.length };
});

describe.each(cases)(
  'the tokenizer of $name',
  needsShared(sharedFixture('tokenizers')),
  ({ name, vectors }) => {
    let tokenizer: Tokenizer;
    beforeAll(async () => {
      const folder = sharedFixture(`tokenizers/${name}`) ?? '';
      ({ tokenizer } = await loadTokenizer(new FolderFiles(folder)));
    });
    afterAll(() => tokenizer.close());

    it(`gives the ids of other programs for all of ${vectors.length} texts`, async () => {
      expect(vectors.length).toBeGreaterThan(0);
      const wrong: object[] = [];
      for (const { text, ids, hasSpecialTokens } of vectors) {
        const got = await tokenizer.encode(text, { addSpecialTokens: hasSpecialTokens });
        if (got.join() !== ids.join()) wrong.push({ text, ids, got });
      }
      expect(wrong).toEqual([]);
    });
  },
);
