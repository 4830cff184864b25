import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { answerOf, type FunctionTool } from '../../src/parsers/answer-parts.ts';
import { reasoningParserOf } from '../../src/parsers/reasoning-formats.ts';
import { toolCallParserOf } from '../../src/parsers/tool-formats.ts';
import { parseJson } from '../../src/util/parse-json.ts';
import { formatsOf, parse } from './parse.ts';
import { CLOCK, parserOf, type SampleCall, WEATHER, WRITTEN } from './written-calls.ts';

const TOOLS = [WEATHER, CLOCK];
const CALLS: readonly SampleCall[] = [
  {
    name: 'get_weather',
    arguments: { city: 'Paris "la nuit" \\ 🌙\n<b>', days: 3, where: { lat: [1.5, -2] } },
  },
  { name: 'clock.now', arguments: {} },
  { name: 'get_weather', arguments: { city: "it's }] late", tags: ['a', 'b,c'], isExact: true } },
];

const samples = z
  .array(
    z.object({
      tools: z.array(z.object({ function: z.custom<FunctionTool>() })),
      calls: z.array(z.object({ name: z.string(), arguments: z.record(z.string(), z.unknown()) })),
    }),
  )
  .parse(JSON.parse(readFileSync('test/fixtures/tool-calling/bfcl-sample.json', 'utf8')));

const callsOf = (parts: Parameters<typeof answerOf>[0]) =>
  answerOf(parts).calls.map((call) => ({ name: call.name, arguments: JSON.parse(call.arguments) }));

const cutAt = (text: string, cut: number): string[] => [text.slice(0, cut), text.slice(cut)];

describe.each(Object.keys(WRITTEN))('calls as %s', (format) => {
  const formats = formatsOf(parserOf(format));
  const write = WRITTEN[format]!;
  const whole = (text: string, tools: readonly FunctionTool[] = TOOLS) => parse(formats, [text], { tools });

  it('reads the published questions back as they were written', () => {
    for (const { tools, calls } of samples) {
      const functions = tools.map((tool) => tool.function);
      expect(callsOf(whole(write(calls), functions))).toEqual(calls);
    }
  });

  it('gives the same answer wherever the stream is cut', () => {
    const text = `Let me see.\n\n${write(CALLS)}`;
    // Formats whose whole answer is calls have no text before them.
    const texts = [text, write(CALLS), write(CALLS.slice(1, 2))];
    for (const one of texts) {
      const expected = answerOf(whole(one));
      for (let cut = 1; cut < one.length; cut++) {
        expect(answerOf(parse(formats, cutAt(one, cut), { tools: TOOLS })), `cut at ${cut}`).toEqual(
          expected,
        );
      }
      expect(answerOf(parse(formats, [...one], { tools: TOOLS }))).toEqual(expected);
    }
    expect(callsOf(whole(write(CALLS)))).toEqual(CALLS);
  });

  it('reads any arguments, in any pieces', () => {
    const value = fc.oneof(fc.integer(), fc.boolean(), fc.constant(null), fc.array(fc.integer()));
    // Bare text has no escapes: a value cannot hold the tags, nor begin or end with a line end.
    const word = fc
      .string({ unit: 'grapheme' })
      .filter((text) => !/<\/|\\|\r/.test(text) && text.trim() === text);
    const args = fc.record({ city: word, days: fc.integer(), where: fc.dictionary(word, value) });
    const cuts = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 });
    fc.assert(
      fc.property(args, cuts, (given, sizes) => {
        const calls = [{ name: 'get_weather', arguments: given }];
        const text = write(calls);
        const pieces: string[] = [];
        for (let at = 0, i = 0; at < text.length; i++) {
          const size = sizes[i % sizes.length]!;
          pieces.push(text.slice(at, at + size));
          at += size;
        }
        expect(callsOf(parse(formats, pieces, { tools: TOOLS }))).toEqual(JSON.parse(JSON.stringify(calls)));
      }),
      { numRuns: 100 },
    );
  });

  it('leaves answers that are no calls as they are', () => {
    const begun = write(CALLS).slice(0, 9);
    const others = [
      '',
      ' ',
      ' Hello,\n world! ',
      '{"name": "Bob", "age": 7}',
      '{"name": "get_weather", "city": {}}',
      '[1, 2, 3]',
      '[get_weather] is a function',
      '[get_weather(city) gives the weather]',
      '<tool_call> is a tag, [TOOL_CALLS] a token, functools a module',
      '<tool_call>{"no": "call"}</tool_call>',
      '<tool_call>[]</tool_call><function=',
      '<|tool_call|>[1]',
      '[TOOL_CALLS]{"a": 1}',
      '<｜tool▁calls▁begin｜>none',
      '<function_call> {"a": 1}',
      'a < b and <tool',
      'half a character: \ud83c',
      begun,
      `so: ${begun}`,
    ];
    for (const text of others) {
      for (let cut = 0; cut <= text.length; cut++) {
        const answer = answerOf(parse(formats, cutAt(text, cut), { tools: TOOLS }));
        expect(answer, `${text} cut at ${cut}`).toEqual({ content: text, reasoning: null, calls: [] });
      }
    }
  });

  it('gives arguments as they come', () => {
    const formatsParser = parse(formats, [...write(CALLS.slice(0, 1))], { tools: TOOLS });
    expect(formatsParser.filter(({ kind }) => kind === 'arguments').length).toBeGreaterThan(5);
  });

  it('ends a call with the answer, where that ends early', () => {
    const text = write(CALLS.slice(0, 1));
    const cut = text.slice(0, text.indexOf('nuit'));
    const { calls } = answerOf(whole(cut));
    expect(calls).toHaveLength(1);
    expect(calls[0]!.arguments).toContain('Paris');
  });

  it('leaves a call open where the answer is cut off in it', () => {
    const text = write(CALLS.slice(0, 1));
    const [call] = answerOf(whole(text)).calls;
    for (let cut = 1; cut < text.length; cut++) {
      const { calls } = answerOf(parse(formats, [text.slice(0, cut)], { tools: TOOLS, isCut: true }));
      if (calls.length === 0) continue;
      const { arguments: args } = calls[0]!;
      expect(call!.arguments.startsWith(args), `cut at ${cut}: ${args}`).toBe(true);
      const isWhole = args === call!.arguments;
      expect(parseJson(args) !== undefined, `cut at ${cut}: ${args}`).toBe(isWhole);
    }
  });

  it('leaves out further calls where one is allowed', () => {
    const { calls } = answerOf(parse(formats, [write(CALLS)], { tools: TOOLS, maxCalls: 1 }));
    expect(calls).toHaveLength(1);
  });
});

describe.each(['pythonic', 'olmo3', 'lfm2'])('calls as %s', (format) => {
  it('may have names that Python has not', () => {
    const call = { name: 'get-weather', arguments: { 'city-name': 'Rome', days: -1 } };
    const text = WRITTEN[format]!([call]);
    const tools = [{ ...WEATHER, name: call.name }];
    expect(callsOf(parse(formatsOf(parserOf(format)), [text], { tools }))).toEqual([call]);
  });
});

/** Answers that begin like calls of a format, and are none. */
const NO_CALLS: readonly (readonly [format: string, text: string])[] = [
  ['hermes', '<tool_call>{"name": "f", "arguments": [1]}'],
  ['hermes', '<tool_call>{"id": 1 2, "name": "f", "arguments": {}}'],
  ['hermes', `<tool_call>{"name": "${'f'.repeat(300)}", "arguments": {}}`],
  ['qwen3_coder', '<function=>\n</function>'],
  ['qwen3_coder', '<function=get\nweather>'],
  ['llama3_json', '{"name": "get_weather"}'],
  ['llama3_json', '{"name": "other", "parameters": {}}'],
  ['llama3_json', '{"name": "\\u0067et_weather", "parameters": {}}'],
  ['pythonic', '<|python_start|>print(1)<|python_end|>'],
  ['pythonic', '[other(city=1)]'],
  ['pythonic', '[get_weather(=1)]'],
  ['olmo3', '<function_calls>print(1)</function_calls>'],
  ['olmo3', 'Write <function_calls> before calls'],
  ['lfm2', '<|tool_call_start|>[other(city=1)]<|tool_call_end|>'],
  ['lfm2', '<|tool_call_start|>[]<|tool_call_end|>'],
  ['lfm2', '[get_weather(city=1)]'],
  ['mistral', '[TOOL_CALLS]f[ARGS]none'],
  ['deepseek_v3', '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\nnone'],
  ['deepseek_v31', '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>none'],
  ['glm45', '<tool_call>maybe <b>'],
  ['gemma4', '<|tool_call>get_weather{city:1}<tool_call|>'],
  ['gemma4', '<|tool_call>call:{city:1}<tool_call|>'],
  ['gemma4', '<|tool_call>call:me <b>'],
  ['openai', `<|channel|>${'x'.repeat(600)}<|message|>4`],
  ['openai', 'The word <|message|> begins a message'],
];

describe('answers that begin like calls', () => {
  it.each(NO_CALLS)('of %s are left as they are: %s', (format, text) => {
    const answer = answerOf(parse(formatsOf(format), [...text], { tools: TOOLS }));
    expect(answer).toEqual({ content: text, reasoning: null, calls: [] });
  });
});

/** What models write of a call in other ways than the usual one. */
const OTHER_WAYS: readonly (readonly [format: string, text: string, name: string, args: string])[] = [
  ['hermes', '<tool_call>{"id": "a", "name": "f", "arguments": {}, "type": "x"}</tool_call>', 'f', '{}'],
  ['granite', '<tool_call>[{"name": "f", "arguments": {"a": 1}}]', 'f', '{"a": 1}'],
  [
    'qwen3_coder',
    '<function=get_weather><parameter=city>Rome</parameter></function>',
    'get_weather',
    '{"city": "Rome"}',
  ],
  ['openai', '<|channel|>commentary to=clock.now<|message|>{}', 'clock.now', '{}'],
  ['openai', ' to=functions.f<|channel|>commentary json<|message|>{}<|call|>', 'f', '{}'],
  ['gemma4', '<|tool_call> call:f{a:Rome,b:None, c: .5}', 'f', '{"a": "Rome", "b": null, "c": 0.5}'],
  ['gemma4', '<|tool_call>call:f(a=<|"|>Rome<|"|>, b=1)<tool_call|>', 'f', '{"a": "Rome", "b": 1}'],
  [
    'gemma4',
    '<|tool_call>call:f{a:weather in Rome<|"|>,b:5}<tool_call|>',
    'f',
    '{"a": "weather in Rome", "b": 5}',
  ],
  [
    'gemma4',
    '<|tool_call>call:f{a:Rome, Italy<|"|>,b:12<|"|>}<tool_call|>',
    'f',
    '{"a": "Rome, Italy", "b": "12"}',
  ],
  ['gemma4', '<|tool_call>call:f{a:[red,<|"|>blue<|"|>]}<tool_call|>', 'f', '{"a": ["red", "blue"]}'],
  ['gemma4', '<|tool_call>call:f{a:[[x],[<|"|>y<|"|>]]}<tool_call|>', 'f', '{"a": [["x"], ["y"]]}'],
  ['gemma4', '<|tool_call>call:f{a:[1,{b:2<tool_call|>', 'f', '{"a": [1, {"b": 2}]}'],
  ['pythonic', '[get_weather(city=)]', 'get_weather', '{"city": ""}'],
  ['pythonic', '[get_weather(tags=[1, ', 'get_weather', '{"tags": [1]}'],
  [
    'pythonic',
    "[get_weather(city='\\d\\x4\\U00110000')]",
    'get_weather',
    '{"city": "\\\\d\\\\x4\\\\U00110000"}',
  ],
];

describe('calls that are written in other ways', () => {
  it.each(OTHER_WAYS)('of %s are read: %s', (format, text, name, args) => {
    const answer = answerOf(parse(formatsOf(format), [...text], { tools: TOOLS }));
    expect(answer).toEqual({ content: null, reasoning: null, calls: [{ name, arguments: args }] });
  });
});

describe('a value between tags', () => {
  const readAs = (schema: object, text: string): unknown => {
    const $defs = {
      Code: { type: 'string' },
      Either: { anyOf: [{ $ref: '#/$defs/Code' }, { type: 'null' }] },
    };
    const tool = { name: 'f', parameters: { type: 'object', properties: { value: schema }, $defs } };
    const call = `<function=f>\n<parameter=value>\n${text}\n</parameter>\n</function>`;
    const { calls } = answerOf(parse(formatsOf('qwen3_coder'), [call], { tools: [tool] }));
    return JSON.parse(calls[0]!.arguments).value;
  };

  it.each([
    ['a text in quotes keeps them', {}, '"a"', '"a"'],
    ['a number is a text where the type allows no number', { type: ['string', 'null'] }, '12', '12'],
    ['an integer is a number', { type: ['number', 'string'] }, '3', 3],
    ['a constant gives its type', { const: '7' }, '7', '7'],
    ['a list of values gives their types', { enum: ['1', '2'] }, '1', '1'],
    ['null is null where the type is nullable', { type: 'string', nullable: true }, 'null', null],
    ['one of several schemas gives its type', { oneOf: [{ type: 'string' }, { type: 'null' }] }, '12', '12'],
    [
      'an object as Python prints it is one',
      { type: 'object' },
      "{'a': [1, None, 'it']}",
      { a: [1, null, 'it'] },
    ],
    ['a list as Python prints it is one', { type: ['array', 'null'] }, "['a', \"b's\"]", ['a', "b's"]],
    ['what looks like one of Python is a text of a string', { type: 'string' }, "['a']", "['a']"],
    ['what only begins like one of Python is a text', { type: 'array' }, "['a'] or so", "['a'] or so"],
    ['what is of another type in Python is a text', { type: 'array' }, "{'a': 1}", "{'a': 1}"],
    ['a definition gives its type', { $ref: '#/$defs/Code' }, '12', '12'],
    ['a definition in a definition gives its type', { $ref: '#/$defs/Either' }, '12', '12'],
    [
      'a definition with a default gives its type',
      { allOf: [{ $ref: '#/$defs/Code' }], default: '' },
      '12',
      '12',
    ],
    ['a definition that is missing allows any type', { $ref: '#/$defs/Other' }, '12', 12],
    ['a schema that says nothing allows any type', { anyOf: [{ type: 'string' }, {}] }, '12', 12],
  ])('%s', (_, schema, text, expected) => {
    expect(readAs(schema, text)).toEqual(expected);
  });
});

it('reads definitions that name each other over and over', () => {
  const numbers = Array.from({ length: 60 }, (_, number) => number);
  const twice = (number: number) => ({ anyOf: Array(2).fill({ $ref: `#/$defs/D${(number + 1) % 60}` }) });
  const $defs = Object.fromEntries(numbers.map((number) => [`D${number}`, twice(number)]));
  const parameters = { type: 'object', properties: { a: { $ref: '#/$defs/D0' } }, $defs };
  const text = '<function=f>\n<parameter=a>\n12\n</parameter>\n</function>';
  const { calls } = answerOf(parse(formatsOf('qwen3_coder'), [text], { tools: [{ name: 'f', parameters }] }));
  expect(calls[0]!.arguments).toBe('{"a": 12}');
});

describe('what models write besides', () => {
  const answer = (format: string, text: string) =>
    answerOf(parse(formatsOf(format), [text], { tools: TOOLS }));

  it('reads what is said before and after calls', () => {
    const call = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>';
    const { content, calls } = answer('hermes', `First.\n${call}\n${call}\nThen.\n`);
    expect(content).toBe('First.\nThen.');
    expect(calls).toHaveLength(2);
  });

  it('reads arguments before the name, and none at all', () => {
    const text =
      '<tool_call>{"arguments": {"a": 1}, "name": "f"}</tool_call><tool_call>{"name": "g"}</tool_call>';
    expect(answer('hermes', text).calls).toEqual([
      { name: 'f', arguments: '{"a": 1}' },
      { name: 'g', arguments: '{}' },
    ]);
  });

  it('keeps the very characters of arguments', () => {
    const args = '{ "a" : 1.0e3,\n "b": "\\u00e9" }';
    expect(
      answer('hermes', `<tool_call>{"name": "f", "arguments": ${args}}</tool_call>`).calls[0]!.arguments,
    ).toBe(args);
  });

  it('ends arguments without an end at the tag', () => {
    const { calls, content } = answer('hermes', '<tool_call>{"name": "f", "arguments": {"a": 1</tool_call>');
    expect(calls).toEqual([{ name: 'f', arguments: '{"a": 1' }]);
    expect(content).toBeNull();
  });

  it('reads Qwen3-Coder without the outer tag, and values by their type', () => {
    const text =
      '<function=get_weather>\n<parameter=city>\n12\n</parameter>\n<parameter=units>\nNone\n</parameter>\n' +
      '<parameter=isExact>\nTrue\n</parameter>\n<parameter=other>\nfree text\n</parameter>\n</function>';
    expect(JSON.parse(answer('qwen3_coder', text).calls[0]!.arguments)).toEqual({
      city: '12',
      units: null,
      isExact: true,
      other: 'free text',
    });
  });

  it('ends a call of Qwen3-Coder whose end the model forgets', () => {
    const text = '<tool_call>\n<function=get_weather>\n<parameter=city>\nRome';
    for (const end of ['', '\n</parameter>\n'])
      expect(answer('qwen3_coder', text + end).calls[0]!.arguments).toBe('{"city": "Rome"}');
  });

  it('reads the tag of Llama 3', () => {
    const text = '<|python_tag|>{"type": "function", "name": "get_weather", "parameters": {"city": "Rome"}}';
    expect(answer('llama3_json', text).calls).toEqual([
      { name: 'get_weather', arguments: '{"city": "Rome"}' },
    ]);
    const other = '<|python_tag|>print(1)';
    expect(answer('llama3_json', other)).toEqual({ content: other, reasoning: null, calls: [] });
  });

  it('reads the tags of Llama 4, and other values of Python', () => {
    const text =
      "<|python_start|>[get_weather(city='a' \"b\\x41\\'\", where={'k': (1, 2.), 3: None}, days=1_000)]<|python_end|>";
    expect(JSON.parse(answer('pythonic', text).calls[0]!.arguments)).toEqual({
      city: "abA'",
      where: { k: [1, 2], 3: null },
      days: 1000,
    });
  });

  it('reads whole numbers of any size of Python', () => {
    const text = '[get_weather(a=12345678901234567890, b=-12_345_678_901_234_567_890, c=0, d=1_000.5)]';
    expect(answer('pythonic', text).calls[0]!.arguments).toBe(
      '{"a": 12345678901234567890, "b": -12345678901234567890, "c": 0, "d": 1000.5}',
    );
  });

  it('reads the ids of Mistral', () => {
    const text = '[TOOL_CALLS]f[CALL_ID]abc123XYZ[ARGS]{"a": 1}[TOOL_CALLS]g{"b": 2}';
    expect(answer('mistral', text).calls).toEqual([
      { name: 'f', arguments: '{"a": 1}' },
      { name: 'g', arguments: '{"b": 2}' },
    ]);
  });

  it('reads the tokens of Phi-4-mini', () => {
    const text = '<|tool_call|>[{"name": "f", "parameters": {"a": 1}}]<|/tool_call|>';
    expect(answer('phi4_mini_json', text)).toEqual({
      content: null,
      reasoning: null,
      calls: [{ name: 'f', arguments: '{"a": 1}' }],
    });
  });

  it('reads several calls of MiniMax-M2 between two tags, and leaves a text as it is', () => {
    const template =
      "{%- set toolcall_begin_token = '<minimax:tool_call>' -%}{{ '<invoke name=\"' }}{{ '</think>' }}";
    expect([toolCallParserOf(template), reasoningParserOf(template)]).toEqual(['minimax_m2', 'qwen3']);
    const call = '<invoke name="f">\n<parameter name="a">1</parameter>\n</invoke>\n';
    const text = `Let me see.\n\n<minimax:tool_call>\n${call}${call}</minimax:tool_call>`;
    expect(answer('minimax_m2', text)).toEqual({
      content: 'Let me see.',
      reasoning: null,
      calls: Array(2).fill({ name: 'f', arguments: '{"a": 1}' }),
    });
    const tag = 'It is <minimax:tool_call> and <invoke name=""> that begin one.';
    expect(answer('minimax_m2', tag)).toEqual({ content: tag, reasoning: null, calls: [] });
  });

  it('reads calls of Nemotron Nano 2 in a text, and leaves tags without calls in it', () => {
    expect(toolCallParserOf('{{ "<TOOLCALL>[" ~ calls }}')).toBe('nemotron_json');
    const call = '{"name": "f", "arguments": {"a": 1}}';
    expect(answer('nemotron_json', `Let me see.\n<TOOLCALL>[${call}, ${call}]\n</TOOLCALL>`)).toEqual({
      content: 'Let me see.',
      reasoning: null,
      calls: Array(2).fill({ name: 'f', arguments: '{"a": 1}' }),
    });
    expect(answer('nemotron_json', 'A <TOOLCALL>list</TOOLCALL>')).toEqual({
      content: 'A <TOOLCALL>list</TOOLCALL>',
      reasoning: null,
      calls: [],
    });
  });

  it('reads calls of Apertus in a text, and leaves tokens without calls in it', () => {
    const call = '{"f": {"a": 1}}';
    const calls = Array(2).fill({ name: 'f', arguments: '{"a": 1}' });
    const text = `Let me see.<|tools_prefix|>[ ${call},\n${call} ] <|tools_suffix|>`;
    expect(answer('apertus', text)).toEqual({ content: 'Let me see.', reasoning: null, calls });
    for (const list of ['list', '[]', '["f"]', '[{}]', '[{"f": 1}]', '[{"": {}}]', '{"f": {}}']) {
      const content = `A <|tools_prefix|>${list}<|tools_suffix|>`;
      expect(answer('apertus', content)).toEqual({ content, reasoning: null, calls: [] });
    }
  });

  it('goes on with what is said after calls of Llama 3', () => {
    const text = '{"name": "get_weather", "parameters": {}}; done';
    const calls = [{ name: 'get_weather', arguments: '{}' }];
    expect(answer('llama3_json', text)).toEqual({ content: '; done', reasoning: null, calls });
  });

  it('goes on behind a field that is no JSON', () => {
    const { content, calls } = answer('hermes', '<tool_call>{"name": "f", "arguments": {}, "id": ]} tail');
    expect({ content, calls }).toEqual({ content: ']} tail', calls: [{ name: 'f', arguments: '{}' }] });
  });

  it('gives a key of GLM without a value no argument', () => {
    const text = '<tool_call>get_weather\n<arg_key>city</arg_key>Rome</tool_call>';
    expect(answer('glm45', text).calls).toEqual([{ name: 'get_weather', arguments: '{}' }]);
  });

  it('reads the last message of harmony, without tools too', () => {
    const text =
      '<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>4<|return|>';
    const expected = { content: '4', reasoning: 'Hm.', calls: [] };
    expect(answerOf(parse(formatsOf('openai'), [text], { tools: [] }))).toEqual(expected);
    const other = '<|channel|>commentary to=other<|message|>{}';
    expect(answer('openai', other)).toEqual({ content: '{}', reasoning: null, calls: [] });
  });

  it('reads no calls of harmony where none may be made', () => {
    const text =
      '<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Rome"}<|call|>';
    const { content, calls } = answerOf(parse(formatsOf('openai'), [text], { tools: [] }));
    expect({ content, calls }).toEqual({ content: '{"city": "Rome"}', calls: [] });
  });

  it('reads values of Python however deep they are', () => {
    const { calls } = answer('pythonic', `[get_weather(where=${'['.repeat(100_000)}`);
    expect(calls[0]!.arguments).toMatch(/^\{"where": \[\[\[/);
  });

  it('gives up what goes on too long to be a call', () => {
    const text = `<tool_call>{"id": "${'x'.repeat(20_000)}"`;
    expect(answer('hermes', text).content).toBe(text);
  });

  it.each([
    ['qwen3_coder', `<function=${'f'.repeat(20_000)}>\n</function>`],
    ['deepseek_v31', `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>${'f'.repeat(20_000)}<｜tool▁sep｜>{}`],
    ['gemma4', `<|tool_call>call:f{a:${'long, '.repeat(4000)}end<|"|>}<tool_call|>`],
  ])('gives up the same wherever the stream is cut: %s', (format, text) => {
    const expected = answer(format, text);
    for (const cut of [15_000, 16_384, 16_500, 19_000]) {
      const pieces = cutAt(text, cut);
      expect(answerOf(parse(formatsOf(format), pieces, { tools: TOOLS })), `cut at ${cut}`).toEqual(expected);
    }
  });
});
