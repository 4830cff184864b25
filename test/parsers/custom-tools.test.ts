// Calls of custom tools: in every format, what the model writes as arguments becomes the input again.

import { describe, expect, it } from 'vitest';
import { answerOf } from '../../src/parsers/answer-parts.ts';
import { asFunction } from '../../src/parsers/custom-tools.ts';
import { formatsOf, parse } from './parse.ts';
import { WRITTEN } from './written-calls.ts';

const RUN = asFunction({ name: 'run', description: 'Runs a program' });
const OPTIONS = { tools: [RUN], customNames: new Set(['run']) };
const PROGRAM = 'print("a\\tb")\n\tif x < 3: # é 😀 \u2028';

/** Each format is named by its parser, and a variant of it behind that. */
const FORMATS = Object.keys(WRITTEN).map((name) => [name, formatsOf(name.split(' ')[0]!)] as const);

function callsOf(pieces: readonly string[]) {
  return answerOf(parse(formatsOf('hermes'), pieces, OPTIONS)).calls;
}

/** As a call of Hermes, whose arguments are `written`. */
function called(written: string): string {
  return `<tool_call>\n{"name": "run", "arguments": ${written}}\n</tool_call>`;
}

describe('the input of a custom tool', () => {
  it.each(FORMATS)('is read from calls of %s', (name, formats) => {
    const text = WRITTEN[name]!([{ name: 'run', arguments: { input: PROGRAM } }]);
    const { calls } = answerOf(parse(formats, [text], OPTIONS));
    expect(calls).toEqual([{ name: 'run', arguments: PROGRAM, isCustom: true }]);
  });

  it('is the same however the answer is cut', () => {
    const text = called(String.raw`{ "input" :  "a\u00e9\ud83d\ude00\\\"\/\n" }`);
    const expected = [{ name: 'run', arguments: 'aé😀\\"/\n', isCustom: true }];
    expect(callsOf([text])).toEqual(expected);
    expect(callsOf([...text])).toEqual(expected);
    for (let at = 1; at < text.length; at++) {
      expect(callsOf([text.slice(0, at), text.slice(at)]), `cut at ${at}`).toEqual(expected);
    }
  });

  it('comes as it is written', () => {
    const parts = parse(formatsOf('hermes'), [...called('{"input": "abc"}')], OPTIONS);
    expect(parts).toEqual([
      { kind: 'call', name: 'run', isCustom: true },
      ...['a', 'b', 'c'].map((text) => ({ kind: 'arguments', text })),
    ]);
  });

  it('ends where the answer is cut off', () => {
    const inputs = ['{', '{"inp', '{"input": ', '{"input": "a', '{"input": "a\\', '{"input": "a\\u00'].map(
      (begun) => callsOf([`<tool_call>{"name": "run", "arguments": ${begun}`])[0]?.arguments,
    );
    expect(inputs).toEqual(['', '', '', 'a', 'a', 'a']);
  });

  it.each(['{"code": "x"}', '{"input": 5}', '{}'])(
    'is whatever else the model writes as arguments: %s',
    (written) => {
      const other = '<tool_call>{"name": "clock", "arguments": {"a": 1}}</tool_call>';
      expect(callsOf([`${called(written)} ${other}`])).toEqual([
        { name: 'run', arguments: written, isCustom: true },
        { name: 'clock', arguments: '{"a": 1}' },
      ]);
      const said = parse(formatsOf('hermes'), [`${called(written)} and so on`], OPTIONS);
      expect(said.map(({ kind }) => kind)).toEqual(['call', 'arguments', 'content']);
    },
  );

  it('is all that is kept of the arguments', () => {
    const call = { name: 'run', arguments: 'a', isCustom: true };
    expect(callsOf([called('{"input": "a", "speed": "high"}')])).toEqual([call]);
  });

  it('has no half of a character', () => {
    expect(callsOf([called(String.raw`{"input": "a\ud83d-\ude00b"}`)])[0]?.arguments).toBe('a-b');
  });
});
