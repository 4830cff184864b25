import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type OutputDelta, OutputProcessor } from '../../src/engine/output-processor.ts';
import { type AnswerReader, answerReader } from '../../src/parsers/answer-formats.ts';
import { answerOf } from '../../src/parsers/answer-parts.ts';
import type { SamplingFields } from '../../src/sampling/sampling-fields.ts';
import { resolveSamplingParams } from '../../src/sampling/sampling-params.ts';
import type { TokenOutput } from '../../src/scheduler/scheduler.ts';
import { loadTokenizer } from '../../src/tokenizer/load-tokenizer.ts';
import type { Tokenizer } from '../../src/tokenizer/tokenizer.ts';
import { FolderFiles } from '../../src/util/model-files.ts';
import { EMOJI, hasHalfCharacter } from '../helpers/emoji.ts';
import { byteFallbackTokenizer } from '../helpers/small-tokenizers.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { formatsOf } from '../parsers/parse.ts';

const newFolder = temporaryFolders();

/** Ids are code points: text in, the same text out. */
const codePoints: Tokenizer = {
  vocabSize: 0x110000,
  eosTokenId: null,
  minTokens: (text) => [...text].length,
  encode: async (text) => [...text].map((character) => character.codePointAt(0)!),
  encodeJoined: async ([text]) => ({ ids: Int32Array.of(text.length), secondTextStart: null }),
  encodeAll: async (texts) => texts.map((text) => [...text].map((character) => character.codePointAt(0)!)),
  decode: async (ids) => String.fromCodePoint(...ids),
  describe: (id) => ({ text: String.fromCodePoint(id), bytes: Buffer.from(String.fromCodePoint(id)) }),
  tokenBytes: async () => ({ bytes: new Uint8Array(0), starts: Int32Array.of(0), specialTokens: new Map() }),
  close: async () => {},
  decodeStream: () => ({ push: (ids) => String.fromCodePoint(...ids), flush: () => '' }),
};

const requestOf = (input: SamplingFields) => ({ params: resolveSamplingParams(input), promptTokenIds: [1] });

const token = (tokenId: number, finish: TokenOutput['finish'] = null): TokenOutput =>
  tokens([tokenId], finish);

const tokens = (tokenIds: readonly number[], finish: TokenOutput['finish'] = null): TokenOutput => ({
  requestId: 0,
  tokenIds,
  logprobs: null,
  promptLogprobs: null,
  numCachedTokens: 0,
  admission: null,
  finish,
});

/** Feeds `text` a character a step, the last one with `finish` length; stops where the processor does. */
function run(text: string, input: SamplingFields, answer: AnswerReader | null = null): OutputDelta[] {
  const processor = new OutputProcessor(0, { ...requestOf(input), answer }, codePoints);
  const deltas: OutputDelta[] = [];
  const ids = [...text].map((character) => character.codePointAt(0)!);
  for (const [index, tokenId] of ids.entries()) {
    const finish = index === ids.length - 1 ? ({ reason: 'length', stopTokenId: null } as const) : null;
    deltas.push(processor.process(token(tokenId, finish)));
    if (deltas.at(-1)!.finish_reason !== null) break;
  }
  return deltas;
}

const textOf = (deltas: readonly OutputDelta[]): string => deltas.map((delta) => delta.text).join('');

describe('OutputProcessor', () => {
  it('cuts the text before a stop string that spans tokens', () => {
    const deltas = run('one two END three', { stop: ['END'] });
    expect(textOf(deltas)).toBe('one two ');
    expect(deltas.at(-1)).toMatchObject({ finish_reason: 'stop', stop_reason: 'END' });
  });

  it('keeps the stop string where it was asked for', () => {
    expect(textOf(run('abc', { stop: 'b', include_stop_str_in_output: true }))).toBe('ab');
  });

  it('stops at the first of several stop strings that one token brings, whatever their order', () => {
    const wholeText: Tokenizer = {
      ...codePoints,
      close: async () => {},
      decodeStream: () => ({ push: () => 'one two three', flush: () => '' }),
    };
    const processor = new OutputProcessor(0, requestOf({ stop: ['three', 'two'] }), wholeText);
    const delta = processor.process(token(1));
    expect(delta).toMatchObject({ text: 'one ', stop_reason: 'two' });
  });

  it('gives out what it held back when the request ends by length', () => {
    expect(textOf(run('almost EN', { stop: ['END'] }))).toBe('almost EN');
  });

  it('never shows a character that a stop string takes back, for any text and stop strings', () => {
    const word = fc.string({ unit: fc.constantFrom('a', 'b'), minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength: 1 }),
        fc.array(word, { maxLength: 3 }),
        (text, stop) => {
          const result = textOf(run(text, { stop }));
          const ends = stop.map((one) => ({ start: text.indexOf(one), end: text.indexOf(one) + one.length }));
          const firstEnd = Math.min(...ends.filter(({ start }) => start >= 0).map(({ end }) => end));
          if (firstEnd === Number.POSITIVE_INFINITY) expect(result).toBe(text);
          else {
            // The match that is complete first wins; of those that end together, the first in the list.
            const match = ends.find(({ start, end }) => start >= 0 && end === firstEnd)!;
            expect(result).toBe(text.slice(0, match.start));
          }
        },
      ),
    );
  });

  it('never ends a delta within a character, for any emoji and stop strings of every length', () => {
    const emoji = fc.string({ unit: fc.constantFrom(...EMOJI, 'a'), minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(emoji, fc.array(emoji, { maxLength: 3 }), fc.nat(12), (text, stop, length) => {
        const stops = [...stop, 'x'.repeat(length + 1)];
        const deltas = run(text, { stop: stops });
        for (const delta of deltas) expect(hasHalfCharacter(delta.text)).toBe(false);
        const isStopped = deltas.at(-1)!.finish_reason === 'stop';
        const shown = textOf(deltas);
        expect(isStopped ? text.startsWith(shown) : shown === text).toBe(true);
      }),
    );
  });

  it('leaves the end token out of the text and in the ids', () => {
    const processor = new OutputProcessor(0, requestOf({}), codePoints);
    const delta = processor.process(token(65, { reason: 'stop', stopTokenId: null }));
    expect(delta).toMatchObject({ text: '', tokenIds: [65], finish_reason: 'stop', stop_reason: null });
  });

  it('shows a stop token only where it was asked for', () => {
    const finish = { reason: 'stop', stopTokenId: 65 } as const;
    const hidden = new OutputProcessor(0, requestOf({}), codePoints);
    expect(hidden.process(token(65, finish))).toMatchObject({
      text: '',
      stop_reason: 65,
    });
    const shown = new OutputProcessor(0, requestOf({ include_stop_str_in_output: true }), codePoints);
    expect(shown.process(token(65, finish)).text).toBe('A');
  });

  it.each([
    ['a stop text', ['Ro'], true, '{"city": "'],
    ['the mark that ends calls', ['</tool_call>'], false, '{"city": "Rome"}'],
    ['the length', [], true, '{"city": "Rome"'],
  ])('tells whether %s has cut off a call', (_, stop, isCallCut, args) => {
    const properties = { city: { type: 'string' } };
    const reader = { prompt: '', tools: [{ name: 'f', parameters: { type: 'object', properties } }] };
    const limits = { maxCalls: 1, isEnforced: false, customNames: new Set<string>() };
    const answer = answerReader(formatsOf('glm45'), { ...reader, ...limits });
    const text = '<tool_call>f\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n';
    const deltas = run(text + (stop.length === 0 ? '' : '</tool_call>'), { stop }, answer);
    const parts = deltas.flatMap((delta) => delta.parts ?? []);
    expect(answerOf(parts).calls).toEqual([{ name: 'f', arguments: args }]);
    expect(deltas.at(-1)).toMatchObject({ isCallCut });
  });

  it('takes a call for whole that more follows, however its arguments are written', () => {
    const limits = { maxCalls: 1, isEnforced: false, customNames: new Set<string>() };
    const answer = answerReader(formatsOf('hermes'), { prompt: '', tools: [{ name: 'f' }], ...limits });
    const call = '<tool_call>{"name": "f", "arguments": {"city": }}</tool_call>';
    const deltas = run(`${call} Done. END`, { stop: ['END'] }, answer);
    const { calls, content } = answerOf(deltas.flatMap(({ parts }) => parts ?? []));
    expect({ calls, content }).toEqual({
      calls: [{ name: 'f', arguments: '{"city": }' }],
      content: ' Done.',
    });
    expect(deltas.at(-1)).toMatchObject({ stop_reason: 'END', isCallCut: false });
  });

  it('counts the tokens of a thought, those that begin and end it among them', () => {
    const texts = ['<think>', 'Hm', '.', '</think>', 'Yes'];
    const pieces: Tokenizer = {
      ...codePoints,
      close: async () => {},
      decodeStream: () => ({ push: ([id]) => texts[id!]!, flush: () => '' }),
    };
    const limits = { maxCalls: 0, isEnforced: false, customNames: new Set<string>() };
    const answer = answerReader(formatsOf('none', 'qwen3'), { prompt: '', tools: [], ...limits });
    const processor = new OutputProcessor(0, { ...requestOf({}), answer }, pieces);
    const deltas = texts.map((_, id) => processor.process(token(id)));
    expect(deltas.map(({ numReasoningTokens }) => numReasoningTokens)).toEqual([1, 1, 1, 1, 0]);
    expect(answerOf(deltas.flatMap(({ parts }) => parts ?? []))).toMatchObject({
      reasoning: 'Hm.',
      content: 'Yes',
    });
  });

  it('makes no text without a tokenizer', () => {
    const processor = new OutputProcessor(2, requestOf({}), null);
    expect(processor.process(token(65))).toEqual({
      index: 2,
      text: '',
      parts: null,
      numReasoningTokens: 0,
      tokenIds: [65],
      numCachedTokens: 0,
      logprobs: null,
      promptLogprobs: null,
      finish_reason: null,
      stop_reason: null,
      isCallCut: false,
    });
  });

  it('searches for stop strings only from min_tokens on, and never in text from before', () => {
    expect(textOf(run('abab!', { stop: ['ab'], min_tokens: 3, max_tokens: 9 }))).toBe('ab');
    expect(textOf(run('xxabxx', { stop: ['ab', 'long one'], min_tokens: 5, max_tokens: 9 }))).toBe('xxabxx');
  });

  it('makes one delta of several tokens, and drops those after a stop string', () => {
    const processor = new OutputProcessor(0, requestOf({ stop: ['bc'] }), codePoints);
    const ids = (text: string): number[] => [...text].map((character) => character.codePointAt(0)!);
    expect(processor.process(tokens(ids('xab')))).toMatchObject({ text: 'xa', tokenIds: ids('xab') });
    const row = { numTop: 0, topIds: [], topLogprobs: [] };
    const zeros = [0, 0, 0];
    const logprobs = { ...row, tokenIds: ids('cde'), logprobs: zeros, ranks: zeros };
    const delta = processor.process({ ...tokens(ids('cde')), logprobs });
    expect(delta).toMatchObject({ text: '', tokenIds: ids('c'), finish_reason: 'stop', stop_reason: 'bc' });
    expect(delta.logprobs).toHaveLength(1);
  });

  it('lets only the last of several tokens end the text', () => {
    const processor = new OutputProcessor(0, requestOf({}), codePoints);
    const finish = { reason: 'stop', stopTokenId: null } as const;
    expect(processor.process(tokens([65, 66, 67], finish))).toMatchObject({
      text: 'AB',
      tokenIds: [65, 66, 67],
      finish_reason: 'stop',
    });
  });

  it('goes on with the text of the prompt, and gives half a character where the answer ends in it', async () => {
    const folder = newFolder();
    mkdirSync(folder);
    writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(byteFallbackTokenizer()));
    const { tokenizer } = await loadTokenizer(new FolderFiles(folder));
    const [the, cat, firstByte] = [4, 5, 10];
    const request = { ...requestOf({}), promptTokenIds: [1, the] };
    const processor = new OutputProcessor(0, request, tokenizer);
    expect(processor.process(token(cat)).text).toBe(' cat');
    const half = token(firstByte + Buffer.from('é')[0]!, { reason: 'length', stopTokenId: null });
    expect(processor.process(half).text).toBe('\u{FFFD}');
    await tokenizer.close();
  });

  it('makes no text where detokenize is false', () => {
    expect(textOf(run('abc', { detokenize: false }))).toBe('');
  });

  it('gives log-probabilities with the text and bytes of each token, the prompt once', () => {
    const rows = {
      tokenIds: [65],
      logprobs: [-0.5],
      ranks: [2],
      numTop: 1,
      topIds: [233],
      topLogprobs: [-0.25],
    };
    const processor = new OutputProcessor(0, requestOf({ logprobs: 1 }), codePoints);
    const delta = processor.process({ ...token(65), logprobs: rows, promptLogprobs: [rows, rows] });
    const position = {
      tokenId: 65,
      logprob: -0.5,
      rank: 2,
      token: { text: 'A', bytes: Buffer.from('A') },
      top: [{ tokenId: 233, logprob: -0.25, rank: 1, token: { text: 'é', bytes: Buffer.from('é') } }],
    };
    expect(delta.logprobs).toMatchObject([position]);
    expect(delta.promptLogprobs).toMatchObject([null, position, position]);
    expect(processor.process(token(66))).toMatchObject({ logprobs: null, promptLogprobs: null });
  });
});
