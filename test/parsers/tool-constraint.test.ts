// Whatever an enforced answer turns out to be, the parser of its format reads calls from it whose arguments fit.

import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { answerOf, type FunctionTool } from '../../src/parsers/answer-parts.ts';
import { afterThought, optionalCalls, requiredCalls } from '../../src/parsers/tool-constraint.ts';
import type { ToolFormat } from '../../src/parsers/tool-format.ts';
import { ToolUse } from '../../src/parsers/tool-use.ts';
import { uniform } from '../../src/sampling/random-stream.ts';
import { compile } from '../../src/structured-output/compile.ts';
import type { Constraint } from '../../src/structured-output/constraint.ts';
import { Matcher } from '../../src/structured-output/matcher.ts';
import { prepareVocabulary } from '../../src/structured-output/prepare-vocabulary.ts';
import { TokenAutomaton } from '../../src/structured-output/token-automaton.ts';
import { tokenTexts } from '../../src/structured-output/token-texts.ts';
import { Vocabulary } from '../../src/structured-output/vocabulary.ts';
import { formatsOf, parse } from './parse.ts';
import { parserOf, WRITTEN } from './written-calls.ts';

const TOOLS: readonly FunctionTool[] = [
  {
    name: 'get_weather',
    parameters: {
      type: 'object',
      properties: {
        city: { type: 'string', enum: ['Paris "P" <b>', 'Rome'] },
        days: { enum: [1, 25] },
        isExact: { type: 'boolean' },
        note: { type: 'string', enum: ['', "it's {1}"] },
        unit: { $ref: '#/$defs/Unit' },
        other: { anyOf: [{ $ref: '#/$defs/Unit' }, { type: 'null' }] },
        'page[size]': { allOf: [{ $ref: '#/$defs/Size' }], description: 'of a page' },
        place: { anyOf: [{ type: 'string', enum: ['home', 'a/b'] }, { enum: [7] }, { type: 'null' }] },
      },
      required: ['city', 'isExact', 'place', 'unit'],
      additionalProperties: false,
      $defs: { Unit: { type: 'string', enum: ['c', 'f'] }, Size: { enum: ['few', 25] } },
    },
  },
  { name: 'clock' },
];
const shapes = z.discriminatedUnion('name', [
  z.object({
    name: z.literal('get_weather'),
    arguments: z.strictObject({
      city: z.enum(['Paris "P" <b>', 'Rome']),
      days: z.union([z.literal(1), z.literal(25)]).optional(),
      isExact: z.boolean(),
      note: z.enum(['', "it's {1}"]).optional(),
      unit: z.enum(['c', 'f']),
      other: z.enum(['c', 'f']).nullable().optional(),
      'page[size]': z.union([z.literal('few'), z.literal(25)]).optional(),
      place: z.union([z.enum(['home', 'a/b']), z.literal(7), z.null()]),
    }),
  }),
  z.object({ name: z.literal('clock'), arguments: z.strictObject({}) }),
]);

const EOS = 256;
const MAX_BYTES = 4000;
const bytes = Array.from({ length: EOS }, (_, byte) => Uint8Array.of(byte));
const vocabulary = new Vocabulary(prepareVocabulary(tokenTexts([...bytes, null], [EOS])));

const automatonOf = (constraint: Constraint) => new TokenAutomaton(compile(constraint), vocabulary);

/** A text that the constraint allows: each byte drawn of those that may come, the end preferred. */
function draw(automaton: TokenAutomaton, seed: number): string {
  const matcher = new Matcher(automaton);
  const mask = new Uint32Array(vocabulary.maskWords);
  const bytes: number[] = [];
  while (bytes.length < MAX_BYTES) {
    matcher.fillMask(mask);
    // Space is dull, and JSON may have any amount of it.
    const allowed = Array.from({ length: EOS + 1 }, (_, token) => token).filter(
      (token) => (mask[token >> 5]! >>> (token & 31)) & 1,
    );
    if (allowed.includes(EOS) && uniform(seed, bytes.length, 1) < 0.7) break;
    const dense = allowed.filter((token) => token > 32 && token < 127);
    const choices = dense.length > 0 ? dense : allowed;
    const token = choices[Math.floor(uniform(seed, bytes.length, 0) * choices.length)]!;
    if (token === EOS) break;
    expect(matcher.accept(token)).toBe(true);
    bytes.push(token);
  }
  return Buffer.from(bytes).toString();
}

function fits(automaton: TokenAutomaton, text: string): boolean {
  const matcher = new Matcher(automaton);
  return [...Buffer.from(text)].every((byte) => matcher.accept(byte)) && matcher.isComplete;
}

/** Calls as no model was trained to write them, but some do, with arguments that do not fit. */
const OTHERWISE_WRITTEN: Readonly<Record<string, readonly string[]>> = {
  qwen3_coder: ['<function=clock><parameter=x>\n1\n</parameter></function>'],
  seed_oss: ['<function=clock><parameter=x>1</parameter></function>'],
  minimax_m2: ['<invoke name="clock"><parameter name="x">1</parameter></invoke>'],
  llama3_json: [
    '{ "name" : "clock", "parameters": {"x": 1}}',
    '<|python_tag|>{"parameters": {"x": 1}, "name": "clock"}',
  ],
  pythonic: ['[clock(x=1)]', ' [ clock(x=1)]', '<|python_start|>[clock(x=1)]<|python_end|>'],
  olmo3: ['<function_calls>\n clock( x=1 )\n</function_calls>'],
  lfm2: ['<|tool_call_start|> [ clock( x=1 ) ]\n<|tool_call_end|>'],
  gemma4: [
    '<|tool_call>call:clock{x:1}<tool_call|>',
    '<|tool_call> call:clock{x:1}<tool_call|>',
    '<|tool_call>call:clock(x=1)<tool_call|>',
  ],
  openai: [
    '<|channel|>commentary to=clock<|message|>{"x": 1}',
    ' to=functions.clock<|channel|>commentary<|message|>{"x": 1}',
    '<|channel|>analysis to=functions.clock<|message|>{"x": 1}',
  ],
  granite: ['<tool_call>[{"name": "clock", "arguments": {"x": 1}}]'],
  phi4_mini_json: ['<|tool_call|>[{"name": "clock", "arguments": {"x": 1}}]<|/tool_call|>'],
};

describe.each(Object.keys(WRITTEN))('enforced calls as %s', (name) => {
  const formats = formatsOf(parserOf(name));
  const format: ToolFormat = formats.tools!;
  const callsIn = (text: string) =>
    answerOf(parse(formats, [text], { tools: TOOLS })).calls.map((call) =>
      shapes.parse({ ...call, arguments: JSON.parse(call.arguments) }),
    );

  it('are read back, and fit their schema', () => {
    const constraint = automatonOf(requiredCalls(format, { tools: TOOLS, isParallel: false }));
    for (let seed = 0; seed < 10; seed++) {
      const text = draw(constraint, seed);
      expect(callsIn(text), text).toHaveLength(1);
      const { content } = answerOf(parse(formats, [text], { tools: TOOLS }));
      expect(content, text).toBeNull();
    }
  });

  it('have arguments with names, though a schema does not say so', () => {
    const tools = [{ name: 'f', parameters: { properties: { a: { enum: [1] } }, required: ['a'] } }];
    const constraint = automatonOf(requiredCalls(format, { tools, isParallel: false }));
    for (let seed = 0; seed < 4; seed++) {
      const { calls } = answerOf(parse(formats, [draw(constraint, seed)], { tools }));
      expect(calls.map((call) => JSON.parse(call.arguments))).toEqual([{ a: 1 }]);
    }
  });

  it('have the arguments that several schemas ask for together', () => {
    const both = {
      type: 'object',
      maxProperties: 2,
      allOf: [{ properties: { a: { enum: [1] } }, required: ['a'] }, { $ref: '#/$defs/Second' }],
    };
    const second = { properties: { b: { enum: [2] } }, required: ['b'] };
    const parameters = { $ref: '#/$defs/Both', $defs: { Both: both, Second: second } };
    const tools = [{ name: 'f', parameters }];
    const constraint = automatonOf(requiredCalls(format, { tools, isParallel: false }));
    for (let seed = 0; seed < 4; seed++) {
      const { calls } = answerOf(parse(formats, [draw(constraint, seed)], { tools }));
      expect(calls.map((call) => JSON.parse(call.arguments))).toEqual([{ a: 1, b: 2 }]);
    }
  });

  it('have no content, wherever they are cut', () => {
    const text = draw(automatonOf(requiredCalls(format, { tools: TOOLS, isParallel: false })), 2);
    for (let end = 0; end <= text.length; end++) {
      const parts = parse(formats, [text.slice(0, end)], { tools: TOOLS, maxCalls: 1, isEnforced: true });
      expect(
        parts.filter(({ kind }) => kind === 'content'),
        text.slice(0, end),
      ).toEqual([]);
    }
  });

  it('may be several where the request allows it', () => {
    if (format.writing.separator === null) return;
    const constraint = automatonOf(requiredCalls(format, { tools: TOOLS.slice(1), isParallel: true }));
    const { begin, separator, end } = format.writing;
    const one = draw(automatonOf(requiredCalls(format, { tools: TOOLS.slice(1), isParallel: false })), 1);
    const call = one.slice(begin.length, one.length - end.length);
    const text = begin + [call, call, call].join(separator) + end;
    expect(fits(constraint, text), text).toBe(true);
    expect(callsIn(text)).toHaveLength(3);
  });

  it('keep to their schema where the model chooses to call, and other text is free', () => {
    const constraint = automatonOf(optionalCalls(format, { tools: TOOLS, isParallel: true }));
    for (const text of ['Hello, <world>!', '', '<', ' 1'])
      expect(fits(constraint, text), JSON.stringify(text)).toBe(true);
    const call = draw(automatonOf(requiredCalls(format, { tools: TOOLS, isParallel: false })), 3);
    expect(fits(constraint, call), call).toBe(true);
    expect(fits(constraint, call.replace(/get_weather|clock/, 'other'))).toBe(false);
  });

  it.each(['auto', 'required'] as const)('are of the tools that a choice allows: %s', (mode) => {
    const tools = TOOLS.map((tool) => ({ type: 'function' as const, function: { ...tool } }));
    const allowed_tools = { mode, tools: tools.slice(1) };
    const use = new ToolUse({ tools, tool_choice: { type: 'allowed_tools', allowed_tools } }, formats);
    const constraint = automatonOf(use.constraint(null, '')!.constraint);
    const call = (tool: FunctionTool) =>
      draw(automatonOf(requiredCalls(format, { tools: [tool], isParallel: false })), 3);
    expect(fits(constraint, call(TOOLS[1]!))).toBe(true);
    expect(fits(constraint, call(TOOLS[0]!))).toBe(false);
    expect(fits(constraint, 'Hello')).toBe(mode === 'auto');
    expect(use.templateTools).toHaveLength(2);
  });

  it('keep to their schema however else they are read', () => {
    const constraint = automatonOf(optionalCalls(format, { tools: TOOLS, isParallel: true }));
    for (const text of OTHERWISE_WRITTEN[name] ?? []) {
      expect(answerOf(parse(formats, [text], { tools: TOOLS })).calls, text).toHaveLength(1);
      expect(fits(constraint, text), text).toBe(false);
    }
  });
});

it('lets nothing follow the arguments of harmony, which would be read as a part of them', () => {
  const { tools } = formatsOf('openai');
  const constraint = automatonOf(optionalCalls(tools!, { tools: TOOLS, isParallel: true }));
  const call = '<|channel|>commentary to=functions.clock <|constrain|>json<|message|>{}';
  expect(fits(constraint, call)).toBe(true);
  for (const more of [' ', '}', call]) expect(fits(constraint, call + more), more).toBe(false);
});

it('lets a name in escapes be, which llama3_json does not read as a call', () => {
  const formats = formatsOf('llama3_json');
  const constraint = automatonOf(optionalCalls(formats.tools!, { tools: TOOLS, isParallel: true }));
  const content = '{ "name": "\\u0063lock", "parameters": {"x": 1}}';
  expect(fits(constraint, content)).toBe(true);
  const answer = answerOf(parse(formats, [content], { tools: TOOLS }));
  expect(answer).toEqual({ content, reasoning: null, calls: [] });
});

describe('a thought before an answer', () => {
  const tags = { begin: '<think>', end: '</think>' };
  const answer: Constraint = { kind: 'literal', text: '4' };

  it('is free text up to its end, and may be left out', () => {
    const constraint = automatonOf(afterThought(answer, { tags, isOpen: false }));
    for (const text of ['4', '<think>2 < 3 </thin </think>\n\n4', '<think></think>4'])
      expect(fits(constraint, text), text).toBe(true);
    for (const text of ['5', '</think>4', '<think>4']) expect(fits(constraint, text), text).toBe(false);
  });

  it('has to end where the prompt has begun it', () => {
    const constraint = automatonOf(afterThought(answer, { tags, isOpen: true }));
    expect(fits(constraint, 'Hm.</think>4')).toBe(true);
    expect(fits(constraint, '4')).toBe(false);
  });
});
