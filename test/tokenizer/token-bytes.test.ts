import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadTokenizer } from '../../src/tokenizer/load-tokenizer.ts';
import type { Tokenizer } from '../../src/tokenizer/tokenizer.ts';
import { FolderFiles } from '../../src/util/model-files.ts';
import { byteFallbackTokenizer, byteLevelTokenizer, wordTokenizer } from '../helpers/small-tokenizers.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const newFolder = temporaryFolders();

async function load(tokenizerJson: object): Promise<Tokenizer> {
  const folder = newFolder();
  mkdirSync(folder);
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(tokenizerJson));
  return (await loadTokenizer(new FolderFiles(folder))).tokenizer;
}

/** Bytes of each token of `text`, one after the other. */
async function joinedBytes(tokenizer: Tokenizer, text: string): Promise<string> {
  const ids = await tokenizer.encode(text, { addSpecialTokens: false });
  return Buffer.concat(ids.map((id) => tokenizer.describe(id).bytes)).toString('utf8');
}

describe('describe', () => {
  it('gives the bytes of byte-level tokens, which join to the text even inside characters', async () => {
    const tokenizer = await load(byteLevelTokenizer());
    expect(await joinedBytes(tokenizer, 'a é 🙂')).toBe('a é 🙂');
    const [first] = await tokenizer.encode('é', { addSpecialTokens: false });
    expect(tokenizer.describe(first!)).toEqual({ text: '\u{FFFD}', bytes: Uint8Array.of(0xc3) });
  });

  it('gives one byte for a byte-fallback token, and a space that the beginning of a text would lose', async () => {
    const tokenizer = await load(byteFallbackTokenizer());
    expect(tokenizer.describe(10 + 0xe2)).toEqual({ text: '\u{FFFD}', bytes: Uint8Array.of(0xe2) });
    expect(tokenizer.describe(10 + 0x41)).toEqual({ text: 'A', bytes: Uint8Array.of(0x41) });
    expect(tokenizer.describe(4).text).toBe(' the');
    expect(tokenizer.describe(7).text).toBe('é');
  });

  it('gives special and other added tokens as they are written', async () => {
    const tokenizer = await load(byteLevelTokenizer());
    expect([256, 257, 258].map((id) => tokenizer.describe(id).text)).toEqual(['<|end|>', '<tool>', 'a b']);
  });

  it('joins word pieces to the word before', async () => {
    const decoder = { type: 'WordPiece', prefix: '##', cleanup: false };
    const tokenizer = await load(wordTokenizer(['play', '##ing'], decoder));
    expect([1, 2].map((id) => tokenizer.describe(id).text)).toEqual([' play', 'ing']);
  });

  it('is empty for an id that no token has', async () => {
    const tokenizer = await load(byteLevelTokenizer());
    expect(tokenizer.describe(100_000)).toEqual({ text: '', bytes: new Uint8Array(0) });
  });
});

describe('spacesBetweenSpecialTokens', () => {
  it('false writes added tokens directly after each other, true as the decoder does', async () => {
    const file = wordTokenizer(['one', 'two'], null);
    const added = (id: number, content: string) => ({
      id,
      content,
      special: false,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
    });
    const tokenizer = await load({ ...file, added_tokens: [added(3, '<x>'), added(4, '<y>')] });
    const decoded = (spacesBetweenSpecialTokens: boolean) =>
      tokenizer
        .decodeStream({ skipSpecialTokens: false, spacesBetweenSpecialTokens, promptTokenIds: [] })
        .push([1, 3, 4, 3, 2]);
    expect(decoded(true)).toBe('one <x> <y> <x> two');
    expect(decoded(false)).toBe('one <x><y><x> two');
  });
});
