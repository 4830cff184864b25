import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { Tokenizer as LibraryTokenizer } from 'tokenizers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadTokenizer } from '../../src/tokenizer/load-tokenizer.ts';
import { namedTokens, withNamedTokens } from '../../src/tokenizer/named-tokens.ts';
import type { Tokenizer } from '../../src/tokenizer/tokenizer.ts';
import { FolderFiles } from '../../src/util/model-files.ts';
import { sharedFixture } from '../helpers/fixtures.ts';
import { needsShared } from '../helpers/needs.ts';
import { byteFallbackTokenizer, byteLevelTokenizer, wordTokenizer } from '../helpers/small-tokenizers.ts';

const WORDS = ['▁he', 'llo', '▁', 'a▁b', '##ing', 'do', ' .', 'not', "'", 's', 'end</w>', 'é', ' ', '  b '];
const FIRST_BYTE_TOKEN = 10;

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc-detokenizer-'));
});
afterAll(() => rm(folder, { recursive: true }));

/** Our tokenizer, and the decode of the library that wrote the format: the oracle. */
interface Pair {
  readonly tokenizer: Tokenizer;
  readonly decode: (ids: number[], skipSpecialTokens?: boolean) => Promise<string>;
}

async function load(tokenizerJson: object): Promise<Pair> {
  await writeFile(join(folder, 'tokenizer.json'), JSON.stringify(tokenizerJson));
  return loadPair(folder);
}

async function loadPair(from: string): Promise<Pair> {
  const library = LibraryTokenizer.fromString(await publishedTokenizer(from));
  return {
    tokenizer: (await loadTokenizer(new FolderFiles(from))).tokenizer,
    decode: (ids, skipSpecialTokens = true) => library.decode(ids, skipSpecialTokens),
  };
}

/** The text of tokenizer.json, with the tokens that only tokenizer_config.json names. */
async function publishedTokenizer(folder: string): Promise<string> {
  const text = await readFile(join(folder, 'tokenizer.json'), 'utf8');
  const config = await readFile(join(folder, 'tokenizer_config.json'), 'utf8').catch(() => '{}');
  const named = namedTokens.parse(JSON.parse(config).added_tokens_decoder);
  return withNamedTokens({ text, addedTokens: JSON.parse(text).added_tokens ?? [] }, named).text;
}

function streamed(tokenizer: Tokenizer, ids: readonly number[], skipSpecialTokens = true): string {
  const stream = tokenizer.decodeStream({ skipSpecialTokens, promptTokenIds: [] });
  return ids.map((id) => stream.push([id])).join('') + stream.flush();
}

/** Random ids, most of them out of `likely`: runs of bytes that make characters come up often enough. */
function idSequences(vocabSize: number, likely: readonly number[]): fc.Arbitrary<number[]> {
  const id = fc.oneof(
    { weight: 2, arbitrary: fc.constantFrom(...likely) },
    { weight: 1, arbitrary: fc.integer({ min: 0, max: vocabSize + 3 }) },
  );
  return fc.array(id, { maxLength: 24 });
}

async function expectStreamEqualsDecode(
  { tokenizer, decode }: Pair,
  likely: readonly number[],
): Promise<void> {
  await fc.assert(
    fc.asyncProperty(
      idSequences(tokenizer.vocabSize, likely),
      fc.boolean(),
      async (ids, skipSpecialTokens) => {
        expect(streamed(tokenizer, ids, skipSpecialTokens)).toBe(await decode(ids, skipSpecialTokens));
      },
    ),
    { numRuns: 400 },
  );
}

describe('a byte-level stream', () => {
  it('equals the whole decode for any ids, well formed or not', async () => {
    const pair = await load(byteLevelTokenizer());
    const emoji = await pair.tokenizer.encode('👩‍🚀é€\u{FEFF}', { addSpecialTokens: false });
    await expectStreamEqualsDecode(pair, [...emoji, 256, 257, 258]);
  });

  it('gives a character when its last byte comes, and not before', async () => {
    const { tokenizer } = await load(byteLevelTokenizer());
    const stream = tokenizer.decodeStream({ skipSpecialTokens: true, promptTokenIds: [] });
    const ids = await tokenizer.encode('€', { addSpecialTokens: false });
    expect(ids.map((id) => stream.push([id]))).toEqual(['', '', '€']);
  });

  it('gives an unfinished character as U+FFFD at the end', async () => {
    const { tokenizer } = await load(byteLevelTokenizer());
    const [first = 0] = await tokenizer.encode('€', { addSpecialTokens: false });
    expect(streamed(tokenizer, [first])).toBe('\u{FFFD}');
  });

  it('leaves special tokens out only when asked to', async () => {
    const { tokenizer } = await load(byteLevelTokenizer());
    const ids = [256, 257];
    expect(streamed(tokenizer, ids, true)).toBe('<tool>');
    expect(streamed(tokenizer, ids, false)).toBe('<|end|><tool>');
  });

  it('finishes a character that the prompt began', async () => {
    const { tokenizer } = await load(byteLevelTokenizer());
    const [first = 0, ...rest] = await tokenizer.encode('€', { addSpecialTokens: false });
    const stream = tokenizer.decodeStream({ skipSpecialTokens: true, promptTokenIds: [first] });
    expect(stream.push(rest)).toBe('€');
  });
});

describe('a byte-fallback stream', () => {
  const byteTokens = (text: string) => [...Buffer.from(text)].map((byte) => FIRST_BYTE_TOKEN + byte);

  it('equals the whole decode for any pieces with well-formed bytes between them', async () => {
    const { tokenizer, decode } = await load(byteFallbackTokenizer());
    const part = fc.oneof(
      fc.array(fc.integer({ min: 0, max: FIRST_BYTE_TOKEN - 1 }), { maxLength: 4 }),
      fc.string({ unit: 'grapheme', maxLength: 3 }).map(byteTokens),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(part, { maxLength: 8 }), async (parts) => {
        const ids = parts.flat();
        expect(streamed(tokenizer, ids)).toBe(await decode(ids));
      }),
      { numRuns: 400 },
    );
  });

  it('is whole after a prompt of bytes of any length, and after one that begins within a character', async () => {
    const { tokenizer } = await load(byteFallbackTokenizer());
    for (const character of ['é', '한', '😀']) {
      const prompt = byteTokens(character.repeat(40));
      for (let length = 2 * Buffer.byteLength(character); length < prompt.length; length += 1) {
        // Cut before a character ends, it is the answer that ends it.
        const end = prompt.length - (length % Buffer.byteLength(character));
        const promptTokenIds = prompt.slice(prompt.length - length, end);
        const stream = tokenizer.decodeStream({ skipSpecialTokens: true, promptTokenIds });
        const answer = [...prompt.slice(end), ...byteTokens('글 ok')];
        expect(stream.push(answer) + stream.flush()).toMatch(/^.?글 ok$/u);
      }
    }
  });

  it('equals the whole decode for runs of bytes that are wrong from their first character on', async () => {
    const { tokenizer, decode } = await load(byteFallbackTokenizer());
    const badRun = fc
      .tuple(
        fc.constantFrom(0x80, 0xc3, 0xe2, 0xff),
        fc.array(fc.integer({ min: 0, max: 0x7f }), { maxLength: 3 }),
      )
      .map(([first, rest]) => [first, ...rest].map((byte) => FIRST_BYTE_TOKEN + byte));
    await fc.assert(
      fc.asyncProperty(fc.array(badRun, { maxLength: 4 }), async (runs) => {
        const ids = runs.flatMap((run) => [5, ...run]);
        expect(streamed(tokenizer, ids)).toBe(await decode(ids));
      }),
      { numRuns: 200 },
    );
  });

  it('keeps what it gave when a later byte of the run is wrong', async () => {
    const { tokenizer } = await load(byteFallbackTokenizer());
    expect(streamed(tokenizer, [...byteTokens('é'), FIRST_BYTE_TOKEN + 0xff, 6])).toBe('é\u{FFFD}s');
  });

  it('keeps a U+FFFD that the model spells out byte by byte', async () => {
    const { tokenizer } = await load(byteFallbackTokenizer());
    expect(streamed(tokenizer, byteTokens('\u{FFFD}é'))).toBe('\u{FFFD}é');
  });

  it('strips the space before the first word of a text, not of a continuation', async () => {
    const { tokenizer } = await load(byteFallbackTokenizer());
    const continuing = (promptTokenIds: number[]) =>
      tokenizer.decodeStream({ skipSpecialTokens: true, promptTokenIds }).push([4, 5]);
    expect(continuing([])).toBe('the cat');
    expect(continuing([1])).toBe('the cat');
    expect(continuing([1, 4])).toBe(' the cat');
    expect(continuing([1, ...Array<number>(500).fill(4)])).toBe(' the cat');
  });
});

describe.each([
  ['Metaspace', { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: true }],
  [
    'Metaspace without a prefix',
    { type: 'Metaspace', replacement: '▁', prepend_scheme: 'never', split: true },
  ],
  ['WordPiece', { type: 'WordPiece', prefix: '##', cleanup: true }],
  ['WordPiece without cleanup', { type: 'WordPiece', prefix: '##', cleanup: false }],
  ['BPEDecoder', { type: 'BPEDecoder', suffix: '</w>' }],
  ['no', null],
  ['Replace by a pattern', { type: 'Replace', pattern: { Regex: '[lo]+' }, content: '$&' }],
])('a stream with %s decoder', (_, decoder) => {
  it('equals the whole decode', async () => {
    const { tokenizer, decode } = await load(wordTokenizer(WORDS, decoder));
    // The library ends the process on an empty list and on a Strip of an empty token: neither is drawn here.
    const ids = fc.array(fc.integer({ min: 1, max: WORDS.length }), { minLength: 1, maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(ids, async (drawn) => {
        expect(streamed(tokenizer, drawn)).toBe(await decode(drawn));
      }),
    );
  });
});

describe('a stream with a Strip decoder', () => {
  const strip = { type: 'Strip', content: ' ', start: 1, stop: 2 };

  it('strips each token before a Fuse', async () => {
    const { tokenizer } = await load(wordTokenizer(['  a   ', 'b'], strip));
    expect(streamed(tokenizer, [1, 2, 1])).toBe(' a b a ');
  });

  it('strips only the two ends of the text after a Fuse', async () => {
    const fused = { type: 'Sequence', decoders: [{ type: 'Fuse' }, strip] };
    const { tokenizer } = await load(wordTokenizer(['  a   ', 'b'], fused));
    expect(streamed(tokenizer, [1, 2, 1])).toBe(' a   b  a ');
  });
});

const folders = [
  'gpt2',
  'granite-3.1-1b-a400m',
  'guppylm',
  'llama2',
  'llama3.1',
  'mistral-7b-v0.3',
  'phi3',
  'torchtitan-test',
];

describe.each(folders)('the published tokenizer %s', needsShared(sharedFixture('tokenizers')), (name) => {
  const path = (file: string) => sharedFixture(`tokenizers/${name}/${file}`) ?? '';
  const lines = async <T>(file: string) =>
    (await readFile(path(file), 'utf8'))
      .split('\n')
      .filter(Boolean)
      .map((line): T => JSON.parse(line));
  let tokenizer: Tokenizer;
  let decode: Pair['decode'];
  beforeAll(async () => {
    ({ tokenizer, decode } = await loadPair(path('.')));
  });

  it('gives the golden ids, and the golden text both whole and streamed', async () => {
    interface Vector {
      text: string;
      ids: number[];
      ids_no_special: number[];
      decoded: string;
      decoded_skip_special: string;
    }
    for (const vector of await lines<Vector>('hf_vectors.jsonl')) {
      expect(await tokenizer.encode(vector.text, { addSpecialTokens: true })).toEqual(vector.ids);
      expect(await tokenizer.encode(vector.text, { addSpecialTokens: false })).toEqual(vector.ids_no_special);
      expect(await tokenizer.decode(vector.ids, { skipSpecialTokens: false })).toBe(vector.decoded);
      expect(streamed(tokenizer, vector.ids, false)).toBe(vector.decoded);
      expect(streamed(tokenizer, vector.ids, true)).toBe(vector.decoded_skip_special);
    }
  });

  it('streams the golden text of every prefix that ends on a character border', async () => {
    for (const { ids, prefix_texts } of await lines<{ ids: number[]; prefix_texts: string[] }>(
      'hf_stream_vectors.jsonl',
    )) {
      const stream = tokenizer.decodeStream({ skipSpecialTokens: true, promptTokenIds: [] });
      let text = '';
      ids.forEach((id, i) => {
        text += stream.push([id]);
        const golden = prefix_texts[i] ?? '';
        if (!golden.endsWith('\u{FFFD}')) expect(text).toBe(golden);
      });
    }
  });

  it('streams what the whole decode gives for random ids', async () => {
    const isByteToken = await byteTokenTest(tokenizer.vocabSize, decode);
    await fc.assert(
      fc.asyncProperty(idSequences(tokenizer.vocabSize, [tokenizer.vocabSize - 1]), async (drawn) => {
        const ids = drawn.filter((id) => !isByteToken(id));
        expect(streamed(tokenizer, ids)).toBe(await decode(ids));
      }),
      { numRuns: 200 },
    );
  });
});

/** Byte tokens of a byte-fallback vocabulary make runs of their own rules, which are tested above. */
async function byteTokenTest(vocabSize: number, decode: Pair['decode']): Promise<(id: number) => boolean> {
  const undecodable = new Set<number>();
  for (let id = 0; id < Math.min(2000, vocabSize); id++) {
    const alone = await decode([id]);
    const twice = await decode([id, id]);
    if (alone === '\u{FFFD}' && twice === '\u{FFFD}\u{FFFD}') undecodable.add(id);
  }
  return (id) => undecodable.has(id);
}
