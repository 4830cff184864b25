import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type OutputDelta, OutputProcessor } from '../../../src/engine/output-processor.ts';
import { resolveSamplingParams, type SamplingInput } from '../../../src/sampling/sampling-params.ts';
import type { DecodeStream } from '../../../src/tokenizer/tokenizer.ts';

/** Ids are code points: text in, the same text out. */
const codePoints: DecodeStream = {
  push: (ids) => String.fromCodePoint(...ids),
  flush: () => '',
};

/** Feeds `text` a character a step, the last one with `finish` length; stops where the processor does. */
function run(text: string, input: SamplingInput): OutputDelta[] {
  const processor = new OutputProcessor(0, resolveSamplingParams(input), codePoints);
  const deltas: OutputDelta[] = [];
  const ids = [...text].map((character) => character.codePointAt(0)!);
  for (const [index, tokenId] of ids.entries()) {
    const finish = index === ids.length - 1 ? ({ reason: 'length', stopTokenId: null } as const) : null;
    deltas.push(processor.process({ requestId: 0, tokenId, finish }));
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
    const wholeText: DecodeStream = { push: () => 'one two three', flush: () => '' };
    const params = resolveSamplingParams({ stop: ['three', 'two'] });
    const delta = new OutputProcessor(0, params, wholeText).process({
      requestId: 0,
      tokenId: 1,
      finish: null,
    });
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

  it('leaves the end token out of the text and in the ids', () => {
    const processor = new OutputProcessor(0, resolveSamplingParams({}), codePoints);
    const delta = processor.process({
      requestId: 0,
      tokenId: 65,
      finish: { reason: 'stop', stopTokenId: null },
    });
    expect(delta).toMatchObject({ text: '', tokenIds: [65], finish_reason: 'stop', stop_reason: null });
  });

  it('shows a stop token only where it was asked for', () => {
    const finish = { reason: 'stop', stopTokenId: 65 } as const;
    const hidden = new OutputProcessor(0, resolveSamplingParams({}), codePoints);
    expect(hidden.process({ requestId: 0, tokenId: 65, finish })).toMatchObject({
      text: '',
      stop_reason: 65,
    });
    const shown = new OutputProcessor(
      0,
      resolveSamplingParams({ include_stop_str_in_output: true }),
      codePoints,
    );
    expect(shown.process({ requestId: 0, tokenId: 65, finish }).text).toBe('A');
  });

  it('makes no text without a tokenizer', () => {
    const processor = new OutputProcessor(2, resolveSamplingParams({}), null);
    expect(processor.process({ requestId: 0, tokenId: 65, finish: null })).toEqual({
      index: 2,
      text: '',
      tokenIds: [65],
      finish_reason: null,
      stop_reason: null,
    });
  });
});
