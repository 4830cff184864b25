import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseJsonBody } from '../../src/http/json-body.ts';

describe('parseJsonBody', () => {
  it('gives what JSON.parse gives', () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 5 }), (text) => {
        expect(parseJsonBody(Buffer.from(text))).toEqual(JSON.parse(text));
      }),
    );
  });

  it('counts depth by brackets outside of texts only', () => {
    const text = JSON.stringify({ a: '[{'.repeat(500), b: '\\"['.repeat(500), c: '\\' });
    expect(parseJsonBody(Buffer.from(text))).toEqual(JSON.parse(text));
    const nested = (depth: number): Buffer => Buffer.from('['.repeat(depth) + ']'.repeat(depth));
    expect(() => parseJsonBody(nested(128))).not.toThrow();
    expect(() => parseJsonBody(nested(129))).toThrow('nested more than 128 levels');
    const afterQuote = Buffer.concat([Buffer.from('{"a":"\\"","b":'), nested(128), Buffer.from('}')]);
    expect(() => parseJsonBody(afterQuote)).toThrow('nested more than 128 levels');
  });

  it('names the path of half a character', () => {
    const body = (text: string): Buffer => Buffer.from(text);
    expect(() => parseJsonBody(body('{"a":[{"b":"x\\udfff"}]}'))).toThrow(
      'a[0].b holds half a character (the lone surrogate \\udfff, at index 1)',
    );
    expect(() => parseJsonBody(body('{"\\ud800":1}'))).toThrow('A field name holds half a character');
    expect(parseJsonBody(body('{"a":"\\ud83d\\ude00"}'))).toEqual({ a: '😀' });
    for (const half of ['d800', 'DBFF', 'Dc00', 'dfFF']) {
      expect(() => parseJsonBody(body(`{"a":"\\u${half}"}`))).toThrow(`surrogate \\u${half.toLowerCase()}`);
    }
  });

  it('shows as much of a long path as tells where it is', () => {
    const [first, second] = ['a', 'b'].map((letter) => letter.repeat(1000)) as [string, string];
    const read = (value: string): unknown =>
      parseJsonBody(Buffer.from(`{"${first}":{"${second}":${value}}}`));
    const shown = `${'a'.repeat(60)}….${'b'.repeat(60)}…`;
    expect(() => read('"\\udfff"')).toThrow(
      expect.objectContaining({
        message: expect.stringContaining(`${shown} holds half a character`),
        param: `${'a'.repeat(60)}…`,
      }),
    );
    const deep = (depth: number): string => (depth === 0 ? '"\\udfff"' : `{"c":${deep(depth - 1)}}`);
    expect(() => read(deep(100))).toThrow(`${shown}${'.c'.repeat(38)}.… holds half a character`);
  });

  it('never quotes half a character where a body is not JSON', () => {
    expect(() => parseJsonBody(Buffer.from('{"a": 😀}'))).toThrow(
      /is not valid JSON: Unexpected token '\ufffd'/,
    );
  });

  it('skips a byte order mark', () => {
    expect(parseJsonBody(Buffer.from('\ufeff{"a":1}'))).toEqual({ a: 1 });
  });

  it('packs the token ids of a prompt, and nothing else', () => {
    const parsed = (body: object): unknown => parseJsonBody(Buffer.from(JSON.stringify(body)));
    expect(parsed({ prompt: [1, 2], other: [1, 2] })).toEqual({ prompt: Int32Array.of(1, 2), other: [1, 2] });
    expect(parsed({ input: [1, 2] })).toEqual({ input: Int32Array.of(1, 2) });
    expect(parsed({ prompt: [[1], [2, 3]] })).toEqual({ prompt: [Int32Array.of(1), Int32Array.of(2, 3)] });
    for (const prompt of [
      'a',
      ['a'],
      [],
      [[]],
      [1, 'a'],
      [-1],
      [1.5],
      [2 ** 31],
      [1, [2]],
      [{}],
      { a: [1] },
      null,
    ]) {
      expect(parsed({ prompt })).toEqual({ prompt });
    }
    for (const svc_resume of [{ a: [1] }, { choices: 'a' }, [1], null]) {
      expect(parsed({ svc_resume })).toStrictEqual({ svc_resume });
    }
  });

  it('keeps numbers as they were written in the fields that templates print, and in no other', () => {
    const numbers = '{"a":[1.0,2,0.5,12345678901234567890],"b":{"c":1e20}}';
    const read = (fields: string): unknown =>
      parseJsonBody(Buffer.from(`{"seed":1.0,${fields}}`), { isForTemplates: true });
    const exact = { a: [Object(1), 2, 0.5, 12345678901234567890n], b: { c: Object(1e20) } };
    for (const field of ['messages', 'tools', 'functions', 'documents', 'chat_template_kwargs']) {
      expect(read(`"${field}":${numbers}`)).toStrictEqual({ seed: 1, [field]: exact });
    }
    expect(read(`"response_format":${numbers}`)).toStrictEqual({
      seed: 1,
      response_format: JSON.parse(numbers),
    });
    expect(read(`"input":[{"a":1}],"tools":[1.0]`)).toEqual({
      seed: 1,
      input: [{ a: 1 }],
      tools: [Object(1)],
    });
    expect(read(`"prompt":[1],"tools":[1.0]`)).toEqual({ seed: 1, prompt: Int32Array.of(1), tools: [1] });
    expect(read(`"prompt":[[1]],"tools":[1.0]`)).toEqual({ seed: 1, prompt: [Int32Array.of(1)], tools: [1] });
  });

  it.each([
    ['1.0', Object(1)],
    ['1e2', Object(100)],
    ['1E2', Object(100)],
    ['9007199254740993', 9007199254740993n],
  ])('notices that %s is to be kept, whatever else there is', (number, exact) => {
    const body = Buffer.from(`{"tools":[${number}]}`);
    expect(parseJsonBody(body, { isForTemplates: true })).toStrictEqual({ tools: [exact] });
  });

  it('names the object that has too many fields', () => {
    const fields = (count: number): string =>
      Array.from({ length: count }, (_, index) => `"name${index}":1`).join();
    const read = (body: string): unknown => parseJsonBody(Buffer.from(body));
    expect(read(`{"a":[{"b":{${fields(4096)}}}]}`)).toBeDefined();
    expect(() => read(`{"a":[{"b":{${fields(4097)}}}]}`)).toThrow(
      'a[0].b has 4097 fields: an object may have at most 4096',
    );
    expect(() => read(`{${fields(5000)}}`)).toThrow('The body has 5000 fields');
  });

  it('takes millions of token ids, and neither as many numbers elsewhere nor many texts', () => {
    const list = (element: string, count: number): string => `[${`${element},`.repeat(count - 1)}${element}]`;
    const read = (body: string): unknown => parseJsonBody(Buffer.from(body));
    expect(read(`{"prompt":${list('7', 1_000_000)}}`)).toEqual({ prompt: new Int32Array(1_000_000).fill(7) });
    expect(read(`{"a":${list('7', 300_000)}}`)).toBeDefined();
    expect(() => read(`{"a":${list('7', 300_001)}}`)).toThrow('more than 300000 numbers');
    expect(read(`{"svc_resume":{"choices":[${list('7', 200_000)},${list('8', 200_000)}]}}`)).toMatchObject({
      svc_resume: { choices: [expect.any(Int32Array), expect.any(Int32Array)] },
    });
    expect(() => read(`{"svc_resume":{"choices":${list('7', 300_001)}}}`)).toThrow(
      'more than 300000 numbers',
    );
    expect(() => read(`{"prompt":${list('-7', 300_001)}}`)).toThrow('more than 300000 numbers');
    for (const element of ['""', '{}', '[]']) {
      expect(read(`{"a":${list(element, 44_997)}}`)).toBeDefined();
      expect(() => read(`{"a":${list(element, 44_998)}}`)).toThrow('more than 45000 texts, lists, objects');
    }
  });
});
