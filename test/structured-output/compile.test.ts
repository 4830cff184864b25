import { describe, expect, it } from 'vitest';
import { ByteAutomaton, type State } from '../../src/structured-output/byte-automaton.ts';
import { compile } from '../../src/structured-output/compile.ts';
import type { Constraint, JsonStyle } from '../../src/structured-output/constraint.ts';
import { ConstraintError } from '../../src/structured-output/limits.ts';
import { accepts, randomText, seededRandom, walk } from '../helpers/byte-walk.ts';

function verdicts(constraint: Constraint, texts: readonly string[]): string[] {
  const automaton = new ByteAutomaton(compile(constraint));
  return texts.filter((text) => accepts(automaton, text));
}

/** 1, 2, ... */
const numbersTo = (last: number): number[] => Array.from({ length: last }, (_, index) => index + 1);

const json = (schema: unknown, style: JsonStyle = {}): Constraint => ({ kind: 'jsonSchema', schema, style });

describe('a constraint', () => {
  it('is what its parts are in their order, a choice of them or a repetition', () => {
    const item: Constraint = { kind: 'regex', pattern: '[ab]' };
    const list: Constraint = { kind: 'repeat', item, separator: ', ', min: 1, max: 3 };
    const objects: Constraint = {
      kind: 'repeat',
      item: json({ const: { a: 1 } }),
      separator: ';',
      min: 0,
      max: null,
    };
    const constraint: Constraint = {
      kind: 'sequence',
      parts: [list, { kind: 'literal', text: '=' }, objects],
    };
    const good = ['a=', 'a, b={"a":1}', 'a, b, a={"a":1};{ "a": 1 }'];
    expect(verdicts(constraint, [...good, '=', 'a, b, a, b=', 'a={"a":1};', 'a={"a":2}'])).toEqual(good);
  });

  it('lets text be free until a trigger, and a tag whole from there on', () => {
    const tags: Constraint = {
      kind: 'triggeredTags',
      triggers: ['<tool'],
      tags: [
        { begin: '<tool>', content: json({ type: 'integer' }), end: '</tool>' },
        { begin: '<tools>', content: json({ type: 'null' }), end: '</tools>' },
      ],
      atLeastOne: false,
      stopAfterFirst: false,
    };
    const good = ['', 'hi <to', '<tool>1</tool>', 'x<tool>1</tool> and <tools>null</tools><'];
    expect(verdicts(tags, [...good, '<tool>null</tool>', '<toolx', '<tool>1'])).toEqual(good);
    const one = ['<tool>1</tool>', 'so: <tool>2</tool>'];
    expect(
      verdicts({ ...tags, atLeastOne: true, stopAfterFirst: true }, [...one, '', 'x', '<tool>1</tool> ']),
    ).toEqual(one);
  });

  it('reads grammars in the dialects of GBNF and Lark', () => {
    const sums = 'root ::= expr # a sum\nexpr ::= term (("+" | "-") term)*\nterm ::= [0-9]+ | "(" expr ")"';
    const good = ['1', '1+2', '(1+(2-3))'];
    expect(verdicts({ kind: 'grammar', ebnf: sums }, [...good, '', '1+', '(1'])).toEqual(good);
    const lark = 'start: item ("," item)*\n// items\n?item: /[a-z]{2}/ | "<" start? ">"';
    const items = ['ab', 'ab,<>', '<ab,<cd>>'];
    expect(verdicts({ kind: 'grammar', ebnf: lark }, [...items, 'a', '<ab'])).toEqual(items);
    const empty = 'root ::= (a? b?)* "."\na ::= "(" root ")"\nb ::= "x"*';
    expect(verdicts({ kind: 'grammar', ebnf: empty }, ['.', '(.)x(x.).', '('])).toEqual(['.', '(.)x(x.).']);
  });

  it.each([
    ['root ::= a\na ::= b? a "x" | "y"\nb ::= "z"', 'begins with itself (root -> a -> a)'],
    ['root ::= missing', 'missing without defining it'],
    ['rule ::= "x"', 'without a rule root'],
    ['root ::= "a" )', 'line 1'],
    [
      `root ::= a0${Array.from({ length: 20_000 }, (_, i) => `\na${i} ::= a${i + 1} | "x" root`).join('')}\na20000 ::= "y"`,
      'more than 500 rules in each other',
    ],
    [
      `root ::= a0${Array.from({ length: 60 }, (_, i) => `\na${i} ::= a${i + 1} a${i + 1}`).join('')}\na60 ::= "y"`,
      'steps to compile',
    ],
    ['root ::= root2\nroot2 ::= "x" root2', 'allows no text'],
  ])('names what is wrong with a grammar: %#', (ebnf, message) => {
    const isNamed = (error: unknown) => error instanceof ConstraintError && error.message.includes(message);
    expect(() => compile({ kind: 'grammar', ebnf })).toThrow(expect.toSatisfy(isNamed));
  });
});

describe('a JSON Schema', () => {
  it('is written without whitespace where that is asked for, else with some', () => {
    const texts = ['{"a":[1,2]}', '{"a": [1, 2]}', '{\n  "a": [\n    1\n  ]\n}'];
    expect(verdicts(json(true, { compact: true }), texts)).toEqual(texts.slice(0, 1));
    expect(verdicts(json(true), texts)).toEqual(texts);
    expect(verdicts(json(true), [' 1', '1 ', '[     ]', `[\n${' '.repeat(50)}1]`])).toEqual([]);
  });

  it('has each listed key once, in any order', () => {
    const schema = {
      properties: { a: true, b: true },
      required: ['a'],
      additionalProperties: false,
      type: 'object',
    };
    const good = ['{"b":1,"a":2}', '{"a":1}'];
    expect(verdicts(json(schema), [...good, '{"a":1,"a":2}', '{"b":1}', '{"a":1,}'])).toEqual(good);
  });

  it('closes objects that do not say otherwise where that is asked for', () => {
    const schema = {
      type: 'object',
      properties: { a: { type: 'object' }, b: { type: 'object', additionalProperties: true } },
    };
    const texts = ['{"a":{}}', '{"b":{"x":1}}', '{"a":{"x":1}}', '{"c":1}'];
    expect(verdicts(json(schema, { closedObjects: true }), texts)).toEqual(texts.slice(0, 2));
    expect(verdicts(json(schema), texts)).toEqual(texts);
  });

  const [id, a] = [{ id: { type: 'integer' } }, { a: { type: 'integer' } }];
  it.each<[string, object, string[], string[]]>([
    [
      'allOf',
      {
        allOf: [
          { properties: id, required: ['id'] },
          { properties: a, required: ['a'] },
        ],
      },
      ['{"id":1,"a":2}'],
      ['{"id":1}', '{"a":2}'],
    ],
    [
      '$ref and properties',
      { $defs: { id: { properties: id, required: ['id'] } }, $ref: '#/$defs/id', properties: a },
      ['{"id":1,"a":2}', '{"id":1}'],
      ['{"a":2}'],
    ],
    [
      'oneOf and properties',
      {
        properties: id,
        required: ['id'],
        oneOf: [
          { properties: { kind: { const: 'x' }, ...a }, required: ['kind', 'a'] },
          { properties: { kind: { const: 'y' } }, required: ['kind'] },
        ],
      },
      ['{"id":1,"kind":"x","a":2}', '{"id":1,"kind":"y"}'],
      ['{"id":1,"kind":"x"}', '{"kind":"y"}'],
    ],
    [
      'if and then',
      {
        properties: { ...id, ...a },
        required: ['id'],
        if: { properties: { id: { const: 1 } } },
        // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
        then: { properties: { a: { minimum: 2 } }, required: ['a'] },
      },
      ['{"id":1,"a":2}', '{"id":2}'],
      ['{"id":1,"a":1}', '{"id":1}'],
    ],
    [
      'dependentSchemas',
      { properties: id, dependentSchemas: { id: { properties: a, required: ['a'] } } },
      ['{"id":1,"a":2}', '{}'],
      ['{"id":1}'],
    ],
    [
      'not',
      { properties: id, required: ['id'], not: { properties: { id: { const: 1 } } } },
      ['{"id":2}'],
      ['{"id":1}'],
    ],
    [
      'oneOf, of which a value is more than one',
      { oneOf: [{ properties: a }, { properties: id, required: ['id'] }] },
      ['{}', '{"a":1}'],
      ['{"id":1}', '{"id":1,"a":2}'],
    ],
    [
      'if, about an object within',
      {
        properties: { x: { properties: { ...id, b: true } }, ...a },
        if: { properties: { x: { properties: { id: { const: 1 } }, required: ['id'] } }, required: ['x'] },
        // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
        then: { required: ['a'] },
      },
      ['{"x":{"id":1,"b":2},"a":3}', '{"x":{"id":2,"b":2}}'],
      ['{"x":{"id":1,"b":2}}'],
    ],
    [
      'contains',
      {
        properties: {
          x: {
            type: 'array',
            items: { properties: { ...id, b: true }, type: 'object' },
            contains: { properties: { id: { const: 1 } }, required: ['id'] },
            maxContains: 1,
          },
        },
      },
      ['{"x":[{"id":1,"b":2},{"b":2}]}'],
      ['{"x":[{"id":1,"b":2},{"id":1}]}', '{"x":[]}'],
    ],
    [
      'properties and allOf, both of a member',
      {
        properties: { x: { type: 'object', properties: a, required: ['a'] } },
        allOf: [{ properties: { x: { properties: id, required: ['id'] } } }],
      },
      ['{"x":{"a":1,"id":2}}'],
      ['{"x":{"a":1}}', '{"x":{"id":1}}'],
    ],
    [
      'items and allOf',
      {
        type: 'array',
        items: { properties: a, required: ['a'] },
        allOf: [{ items: { properties: id, required: ['id'] } }],
      },
      ['[{"a":1,"id":2}]'],
      ['[{"a":1}]', '[{"id":1}]'],
    ],
    [
      'anyOf that says no more of a member than that it is there',
      { properties: { x: { properties: a }, ...id }, anyOf: [{ required: ['x'] }, { required: ['id'] }] },
      ['{"x":{"a":1}}'],
      ['{"x":{"b":1}}', '{}'],
    ],
    [
      'items and if and then, of a member of an array',
      {
        properties: { kind: {}, list: { items: { properties: a } } },
        required: ['kind'],
        if: { properties: { kind: { const: 'x' } } },
        // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema.
        then: { properties: { list: { items: { properties: id, required: ['id'] } } } },
      },
      ['{"kind":"x","list":[{"a":1,"id":2}]}', '{"kind":"y","list":[{"a":1}]}'],
      ['{"kind":"x","list":[{"a":1}]}'],
    ],
    [
      'anyOf alone, whose parts are closed',
      {
        anyOf: [{ properties: id, required: ['id'] }, { $ref: '#/$defs/a' }],
        $defs: { a: { properties: a } },
      },
      ['{"id":1}', '{"a":1}'],
      ['{"id":1,"a":2}', '{"b":1}'],
    ],
  ])('closes no part of what several say of an object: %s', (_, schema, good, bad) => {
    expect(verdicts(json({ type: 'object', ...schema }, { closedObjects: true }), [...good, ...bad])).toEqual(
      good,
    );
  });

  it.each([
    [
      'date-time',
      ['2024-02-29T10:00:00Z', '2024-01-31T10:00:00.5+01:00'],
      ['2023-02-29T10:00:00Z', '2024-01-31', 'x'],
    ],
    ['email', ['a.b@example.org'], ['a', '@x', 'a@']],
    ['ipv4', ['127.0.0.1'], ['256.0.0.1', '1.1.1']],
    [
      'ipv6',
      ['::1', '2001:db8::', '1:2:3:4:5:6:7:8', '::ffff:1.2.3.4', '1::8'],
      ['1:2:3:4:5:6:7', '1:2:3:4:5:6:7:8:9', ':::', '1::2::3'],
    ],
    ['uuid', ['123e4567-e89b-12d3-a456-426614174000'], ['123e4567']],
    ['duration', ['P1Y2M', 'PT5M', 'P1W'], ['P', 'PT', '1Y']],
    ['time', ['23:59:59Z'], ['24:00:00Z']],
    ['date', ['2000-02-29'], ['1900-02-29', '2024-13-01']],
    ['uri', ['https://a.org/b?c=d#e'], ['a b', '//x', 'https://a.org/é']],
    [
      'uri-reference',
      ['https://a.org/b#e', '//a/b', 'b?c', '#d', '', 'a/b:c'],
      ['a b', '1:b', ':', '%1', '#a#'],
    ],
    ['iri', ['https://a.org/é?世=🌙#e'], ['a b', '//x']],
    ['iri-reference', ['é/世', '#🌙'], ['a b', 'é:世', '\ue000']],
    ['uri-template', ['https://a.org/{b}/{?c,d*,e:3}', '{+a.b}', ''], ['{', '{}', '{a b}', 'a b', '{a:0}']],
    ['json-pointer', ['', '/', '/a~1b/0', '/é "q"'], ['a', '/~', '/~2', '#/a']],
    ['relative-json-pointer', ['0', '12/a', '1#'], ['', '01', '/a', '1#/a', '-1']],
  ])('enforces the format %s', (format, good, bad) => {
    const texts = [...good, ...bad].map((text) => JSON.stringify(text));
    expect(verdicts(json({ type: 'string', format }), texts)).toEqual(texts.slice(0, good.length));
    expect(verdicts(json({ type: 'string', format }, { ignoreFormats: true }), texts)).toEqual(texts);
  });

  it('takes what JSON Schema knows as notes, or does not know, for notes', () => {
    const notes = { title: 'T', contentEncoding: 'base64', 'x-own': 1, unknown: [], format: 'int32' };
    expect(verdicts(json({ type: 'string', ...notes }), ['"a"', '1'])).toEqual(['"a"']);
  });

  it('allows null beside a type that is nullable, as OpenAPI 3.0 says it', () => {
    const texts = ['null', '"a"', '"abc"', '1'];
    const schema = { type: 'string', maxLength: 2, nullable: true };
    expect(verdicts(json(schema), texts)).toEqual(['null', '"a"']);
    expect(verdicts(json({ ...schema, nullable: false }), texts)).toEqual(['"a"']);
    expect(verdicts(json({ ...schema, enum: ['a'] }), texts)).toEqual(['"a"']);
    expect(verdicts(json({ ...schema, enum: ['a', null] }), texts)).toEqual(['null', '"a"']);
  });

  it('keeps numbers within their bounds to the last digit', () => {
    const texts = (numbers: readonly number[]): string[] => numbers.map((number) => JSON.stringify(number));
    const inside = [1.1, 1.1000000000000003, 2, 2.9999999999999996, 1.5];
    const outside = [1.0999999999999999, 3, 1, 0, -2, 1e21, 1e-7, 30];
    const schema = { type: 'number', minimum: 1.1, exclusiveMaximum: 3 };
    expect(verdicts(json(schema), texts([...inside, ...outside]))).toEqual(texts(inside));
    const tiny = [1e-7, 5e-324, 0.001];
    expect(
      verdicts(json({ exclusiveMinimum: 0, maximum: 0.001 }), texts([...tiny, 0, 0.0011, -1e-7])),
    ).toEqual(texts(tiny));
    const cents = [0.07, 1, 12.5, -3.25];
    expect(verdicts(json({ multipleOf: 0.01 }), texts([...cents, 0.001, 1.005]))).toEqual(texts(cents));
  });

  describe('keeps items apart that must differ', () => {
    const texts = (values: readonly unknown[]): string[] => values.map((value) => JSON.stringify(value));
    const unique = (schema: object, style: JsonStyle = {}): Constraint =>
      json({ type: 'array', uniqueItems: true, ...schema }, style);

    it.each([
      [
        { items: { enum: ['a', 'ab', 'b'] } },
        [[], ['ab'], ['b', 'a', 'ab']],
        [
          ['a', 'a'],
          ['b', 'a', 'b'],
        ],
      ],
      [
        { items: { enum: [1, '1', true, null] } },
        [[1, '1', true, null]],
        [
          [1, '1', 1],
          [null, null],
        ],
      ],
      [
        { items: { type: 'boolean' } },
        [[true, false], [false]],
        [
          [true, true],
          [true, false, true],
        ],
      ],
      [{ items: { anyOf: [{ const: 0 }, { const: 'x' }] } }, [[0, 'x'], ['x']], [['x', 0, 'x']]],
      [
        { prefixItems: [{ enum: [1, 2] }], items: { enum: [2, 3] } },
        [[1], [1, 2], [2, 3], [1, 3, 2]],
        [
          [2, 2],
          [1, 3, 3],
          [2, 3, 2],
          [1, 1],
        ],
      ],
      [
        { items: { enum: [1, 2, 3] }, minItems: 2, maxItems: 2, contains: { const: 3 } },
        [
          [1, 3],
          [3, 2],
        ],
        [[1, 2], [3, 3], [3], [1, 2, 3]],
      ],
      [{ items: { type: 'string' }, maxItems: 1 }, [[], ['x']], [['x', 'y']]],
    ])('%j', (schema, good, bad) => {
      expect(verdicts(unique(schema), texts([...good, ...bad]))).toEqual(texts(good));
    });

    it('in every text that it leads to, up to 12 values', () => {
      const schema = { items: { enum: numbersTo(12) }, minItems: 12 };
      const automaton = new ByteAutomaton(compile(unique(schema, { compact: true })));
      const random = seededRandom(7);
      const seen = new Set<string>();
      for (let run = 0; run < 20; run++) {
        const text = randomText(automaton, 100, random);
        seen.add(text);
        expect(JSON.parse(text).toSorted((a: number, b: number) => a - b)).toEqual(numbersTo(12));
      }
      expect(seen.size).toBeGreaterThan(10);
    });

    it('and allows no text where there are too few', () => {
      expect(() => compile(unique({ items: { type: 'boolean' }, minItems: 3 }))).toThrow(
        /allows no text at all/,
      );
    });
  });

  it('counts characters between marks, which are nowhere in a text', () => {
    const quote = '<|"|>';
    const schema = { type: 'string', minLength: 3, maxLength: 10_000 };
    const grammar = compile(json(schema, { quote }), new Map([[quote, 52]]));
    const automaton = new ByteAutomaton(grammar);
    const mark = Buffer.from([0xff, 0, 0, 52]);
    const isText = (text: string): boolean => {
      let state: State | null = automaton.start();
      for (const byte of Buffer.concat([mark, Buffer.from(text), mark]))
        state = state === null ? null : automaton.step(state, byte);
      return state?.isComplete === true;
    };
    const good = ['abc', 'a\n"', '😀é<', '<|"|', '<<|"', 'x'.repeat(10_000), '<|'.repeat(5000)];
    const bad = ['', 'ab', '😀é', quote, `a${quote}`, `<|"${quote}b`, 'é'.repeat(10_001)];
    expect([...good, ...bad].filter(isText)).toEqual(good);
  });

  it('spells numbers that a schema names as a program does', () => {
    const named = ['1', '-2.5', '0', '1e+21', '5e-324'];
    const others = ['1.0', '1.00', '1e0', '-2.50', '-0', '0.0', '2', '-2', '1e21'];
    expect(verdicts(json({ enum: named.map(Number) }), [...named, ...others])).toEqual(named);
    expect(verdicts(json({ const: 1 }), [...named, ...others])).toEqual(['1']);
    expect(verdicts(json({ type: 'integer', enum: [1, 2.5] }), ['1', '1.0', '2.5'])).toEqual(['1']);
    expect(
      verdicts(json({ anyOf: [{ type: 'integer' }, { enum: [2.5] }] }), ['1', '1.0', '2.5', '2.50']),
    ).toEqual(['1', '2.5']);
  });

  it.each([
    [
      { properties: { tags: { type: 'array', uniqueItems: true }, last: { type: 'string' } } },
      /^The schema at \/properties\/tags asks for uniqueItems, .* at most 12 values: list them by enum/,
    ],
    [{ uniqueItems: true, items: { enum: numbersTo(13) } }, 'The schema at / asks for uniqueItems'],
    [{ uniqueItems: true, items: { enum: [[1], 2] } }, 'The schema at / asks for uniqueItems'],
    [
      { uniqueItems: true, prefixItems: [{ type: 'boolean' }], items: { type: 'integer' } },
      'The schema at / asks for uniqueItems',
    ],
    [
      { properties: { a: { type: 'object', minProperties: 2 }, b: { items: { type: 'null' } } } },
      'The schema at /properties/a asks for minProperties',
    ],
    [
      {
        allOf: [
          { properties: { a: { multipleOf: 0.123456789 } } },
          { properties: { a: { type: 'number' } } },
        ],
      },
      'The schema at /allOf/0/properties/a and /allOf/1/properties/a has a multipleOf of 0.123456789',
    ],
    [{ allOf: [{ $ref: 'https://example.org/other.json' }] }, '"$ref" at /allOf/0/$ref'],
    [{ properties: { a: { pattern: '(?=x)' } } }, '"pattern" at /properties/a/pattern'],
    [{ $ref: '#/definitions/missing' }, 'does not exist'],
    [{ $ref: '#' }, 'refers to itself'],
    [{ required: 'a' }, '"required" at /required'],
    [
      { properties: { a: { format: 'regex' } } },
      '"format" at /properties/a/format is "regex", which cannot be',
    ],
    [{ format: 'idn-email' }, '"format" at /format is "idn-email"'],
    [{ format: 'idn-hostname' }, '"format" at /format is "idn-hostname"'],
    [{ type: 'text' }, 'is no type'],
    [{ minimum: 2, maximum: 1, type: 'number' }, 'allows no text'],
    [{ type: 'object', properties: { a: { $ref: '#' } }, required: ['a'] }, 'allows no text'],
    [{ not: { additionalProperties: { type: 'string' } } }, '"not" at /not'],
    [
      { enum: Array.from({ length: 100_000 }, (_, i) => `value number ${i} of a long list`) },
      '"enum" at /enum',
    ],
    [{ $schema: 'https://example.org/own' }, '$schema'],
  ])('is refused by the keyword and where it is: %#', (schema, message) => {
    expect(() => compile(json(schema))).toThrow(ConstraintError);
    expect(() => compile(json(schema))).toThrow(message);
  });

  const impossible = { type: 'number', minimum: 2, maximum: 1 };
  const open = { type: 'object', required: ['a'] };
  const closed = { ...open, additionalProperties: false };
  const notAllowed = 'it requires "a", which can have no value';
  it.each([
    [impossible, '/', null],
    [{ ...closed, properties: { b: { type: 'string' } } }, '/', notAllowed],
    [{ ...open, properties: { a: false } }, '/', notAllowed],
    [{ ...open, properties: { b: { type: 'string' }, a: impossible } }, '/properties/a', null],
    [{ ...open, properties: { a: closed } }, '/properties/a', notAllowed],
    [
      { ...open, properties: { a: { type: 'object', maxProperties: 0, minProperties: 1 } } },
      '/properties/a',
      null,
    ],
    [{ ...open, properties: { a: { $ref: '#' } } }, '/properties/a', null],
    [{ ...open, required: ['b', 'a'], properties: { a: false, b: { $ref: '#' } } }, '/', notAllowed],
    [{ anyOf: [closed, impossible] }, '/', notAllowed],
    [{ anyOf: [closed, { type: 'array', minItems: 1, items: impossible }] }, '/', notAllowed],
    [{ type: 'array', minItems: 1, items: impossible }, '/', null],
  ])('that allows nothing is refused by the part that is at fault: %#', (schema, where, why) => {
    const message = `The schema at ${where} allows no text at all${why === null ? '' : `: ${why}`}`;
    expect(() => compile(json(schema))).toThrow(new ConstraintError(message));
  });

  it('goes no deeper than the limit, and ends there', () => {
    const automaton = new ByteAutomaton(compile(json({ type: 'array', items: { $ref: '#' } })));
    let state = walk(automaton, '')!;
    let depth = 0;
    for (let next = automaton.step(state, 0x5b); next !== null; next = automaton.step(state, 0x5b)) {
      state = next;
      depth += 1;
    }
    expect(depth).toBe(256);
    expect(walk(automaton, ']'.repeat(depth), state)?.isComplete).toBe(true);
  });
});
