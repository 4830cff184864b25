// Constrained answers over HTTP, by the model that svc brings along: they are what was asked for, whatever the temperature.

import { Ajv } from 'ajv';
import { zodResponseFormat } from 'openai/helpers/zod';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { COMPILE_LIMITS, ConstraintCompiler } from '../../src/engine/constraints/compiler.ts';
import { OverloadedError } from '../../src/errors.ts';
import type { Constraint, JsonStyle } from '../../src/structured-output/constraint.ts';
import { withSpecialTokens } from '../../src/structured-output/token-texts.ts';
import { buildTokenTrie } from '../../src/structured-output/token-trie.ts';
import type { PreparedVocabulary } from '../../src/structured-output/vocabulary.ts';
import { unpackShared } from '../../src/util/shared-value.ts';
import { AMBIGUOUS_GRAMMAR } from '../helpers/ambiguous-grammar.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { bodyOf, errorOf, isIdle, startTestServer, type TestServer } from './test-server.ts';

const SCHEMA = {
  type: 'object',
  properties: {
    name: { type: 'string', maxLength: 12 },
    age: { type: 'integer', minimum: 0, maximum: 120 },
    mood: { enum: ['happy', 'sad'] },
    friends: { type: 'array', items: { type: 'string', maxLength: 8 }, maxItems: 2 },
  },
  required: ['name', 'age', 'mood', 'friends'],
  additionalProperties: false,
};
const FORMAT_OF_MOOD = SCHEMA.properties.mood;
const isValid = new Ajv().compile(SCHEMA);
const MESSAGES = [{ role: 'user' as const, content: 'My name is Tom. Who are you?' }];
const FORMAT = {
  type: 'json_schema' as const,
  json_schema: { name: 'person', schema: SCHEMA, strict: true },
};
/** Without the whitespace that a small model would fill its answer with. */
const COMPACT = { structured_outputs: { json: SCHEMA, disable_any_whitespace: true } };
const CHAT = { model: 'tiny', messages: MESSAGES, max_tokens: 400, seed: 1 };

let svc: TestServer;
beforeAll(async () => {
  svc = await startTestServer({ folder: 'models/svc-chat' });
});
afterAll(() => svc.close());

async function completion(body: object): Promise<string> {
  const response = await svc.post('/v1/completions', {
    prompt: 'Once',
    max_tokens: 60,
    temperature: 1,
    seed: 3,
    ...body,
  });
  expect(response.status).toBe(200);
  const [choice] = (await bodyOf(response)).choices;
  expect(choice.finish_reason).toBe('stop');
  return choice.text;
}

async function refusal(body: object, path = '/v1/completions') {
  const own = path === '/v1/completions' ? { prompt: 'Once' } : CHAT;
  return errorOf(await svc.post(path, { ...own, ...body }));
}

describe('structured output', () => {
  it.each([0, 1.5])(
    'answers JSON of the schema in every sample at a temperature of %d',
    async (temperature) => {
      const answer = await svc.client.chat.completions.create({ ...CHAT, ...COMPACT, temperature, n: 4 });
      for (const { message, finish_reason } of answer.choices) {
        expect(finish_reason).toBe('stop');
        expect(isValid(JSON.parse(message.content!))).toBe(true);
      }
    },
  );

  it('writes each of twelve items once, in the form of a set of an enum', async () => {
    const names = Array.from({ length: 12 }, (_, index) => `item ${index}`);
    const json = {
      $defs: { Item: { enum: names, type: 'string' } },
      type: 'array',
      items: { $ref: '#/$defs/Item' },
      uniqueItems: true,
      minItems: 12,
    };
    const text = await completion({ structured_outputs: { json }, max_tokens: 200, bad_words: ['\n'] });
    expect(JSON.parse(text).toSorted()).toEqual(names.toSorted());
  });

  it('keeps a JSON object to the schema beside its type, as some clients send it', async () => {
    const schema = { $ref: '#/definitions/Pet', definitions: { Pet: { ...SCHEMA, required: ['mood'] } } };
    const asked = {
      ...CHAT,
      bad_words: [' ', '\n'],
      temperature: 1.5,
      response_format: { type: 'json_object', schema },
    };
    const { choices } = await bodyOf(await svc.post('/v1/chat/completions', asked));
    expect(FORMAT_OF_MOOD.enum).toContain(JSON.parse(choices[0].message.content).mood);
    const wrong = { response_format: { type: 'json_object', schema: { type: 'thing' } } };
    expect(await refusal(wrong, '/v1/chat/completions')).toMatchObject({
      status: 400,
      param: 'response_format',
    });
  });

  it('lets other requests go on while the first constraint is prepared', async () => {
    const own = await startTestServer({ folder: 'models/svc-chat' });
    const { tokenizer, limits } = own.engine;
    let release = (): void => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const tokenBytes = tokenizer!.tokenBytes.bind(tokenizer);
    let isPreparing = false;
    tokenizer!.tokenBytes = async () => {
      isPreparing = true;
      await released;
      return tokenBytes();
    };
    const constrained = own.post('/v1/completions', {
      prompt: 'Once',
      max_tokens: 60,
      structured_outputs: { choice: ['yes', 'no'] },
    });
    await expect.poll(() => isPreparing).toBe(true);
    const free = await own.post('/v1/completions', { prompt: 'Once', max_tokens: 8, ignore_eos: true });
    expect((await bodyOf(free)).usage.completion_tokens).toBe(8);
    release();
    expect((await bodyOf(await constrained)).choices[0].text).toMatch(/^(yes|no)$/);
    const { vocabulary } = await own.engine.constraints.compile({
      constraint: { kind: 'literal', text: 'yes' },
      field: 'structured_outputs',
    });
    // What the engine thread gets is the trie itself: it has nothing left to build.
    const { trie } = unpackShared<PreparedVocabulary>(vocabulary);
    const { bytes, starts, specialTokens } = await tokenBytes();
    const texts = {
      bytes: new Uint8Array(bytes),
      starts: starts.slice(0, limits.vocabSize + 1),
      endTokenIds: limits.eosTokenIds,
    };
    expect(trie).toEqual(buildTokenTrie(withSpecialTokens(texts, specialTokens)));
    expect(trie.byte.buffer).toBe(vocabulary);
    await own.close();
  });

  it('does not blame the constraint where the vocabulary is not ready in time', async () => {
    const limits = { ...COMPILE_LIMITS, timeoutMs: 0 };
    const { structuredOutputs } = ENGINE_DEFAULTS;
    const compiler = new ConstraintCompiler(svc.engine, structuredOutputs, limits);
    const constraint = { kind: 'literal', text: 'yes' } as const;
    const compiling = compiler.compile({ constraint, field: 'structured_outputs' });
    await expect(compiling).rejects.toThrow(OverloadedError);
    await expect(compiling).rejects.toThrow('The vocabulary of the model is not ready');
    await compiler.close();
  });

  it('compiles no constraint that nobody waits for any more, and goes on with one that others wait for', async () => {
    const compiler = new ConstraintCompiler(svc.engine, ENGINE_DEFAULTS.structuredOutputs, {
      ...COMPILE_LIMITS,
      maxWaiting: 1,
    });
    const asked = (texts: readonly string[]) => ({
      constraint: {
        kind: 'choice' as const,
        options: texts.map((text) => ({ kind: 'literal' as const, text })),
      },
      field: 'structured_outputs',
    });
    await compiler.compile(asked(['yes', 'no']));
    const first = compiler.compile(asked(Array.from({ length: 10_000 }, (_, index) => `word ${index}`)));
    const gone = new AbortController();
    const shared = asked(['up', 'down']);
    const abandoned = compiler.compile(shared, { signal: gone.signal });
    const other = compiler.compile(shared);
    gone.abort(new Error('the client has left'));
    await expect(abandoned).rejects.toThrow('the client has left');
    await Promise.all([first, other]);

    const second = compiler.compile(asked(Array.from({ length: 10_000 }, (_, index) => `text ${index}`)));
    const goneToo = new AbortController();
    const alone = compiler.compile(asked(['left', 'right']), { signal: goneToo.signal });
    goneToo.abort(new Error('the client has left'));
    await expect(alone).rejects.toThrow('the client has left');
    // The one place where a constraint may wait is free again.
    await Promise.all([second, compiler.compile(asked(['left', 'right']))]);
    await compiler.close();
  });

  it('compiles a constraint once, and one that there was no room for when it is asked for again', async () => {
    const compiler = new ConstraintCompiler(svc.engine, ENGINE_DEFAULTS.structuredOutputs, {
      ...COMPILE_LIMITS,
      maxWaiting: 1,
    });
    const compile = (pattern: string) =>
      compiler.compile({ constraint: { kind: 'regex', pattern }, field: 'structured_outputs' });
    const { grammar } = await compile('a');
    expect((await compile('a')).grammar).toBe(grammar);
    const room = Promise.all(['b', 'c'].map(compile));
    await expect(compile('d')).rejects.toThrow(OverloadedError);
    await room;
    expect((await compile('d')).grammar.byteLength).toBeGreaterThan(0);
    await compiler.close();
  });

  it('has the style of --structured-outputs-config in all JSON within other formats', async () => {
    const plain = svc.engine.constraints;
    const strict = new ConstraintCompiler(svc.engine, {
      ...ENGINE_DEFAULTS.structuredOutputs,
      disableAnyWhitespace: true,
      disableAdditionalProperties: true,
    });
    const formatsOf = (style: JsonStyle): Constraint[] => {
      const json: Constraint = { kind: 'jsonSchema', schema: { type: 'object' }, style };
      const repeat = { kind: 'repeat', item: json, separator: ';', min: 1, max: 2 } as const;
      const tags = [{ begin: '<a>', content: json, end: '</a>' }];
      return [
        json,
        { kind: 'sequence', parts: [{ kind: 'choice', options: [repeat] }] },
        { kind: 'triggeredTags', triggers: ['<a>'], tags, atLeastOne: true, stopAfterFirst: true },
      ];
    };
    const idsOf = (compiler: ConstraintCompiler, style: JsonStyle) =>
      Promise.all(
        formatsOf(style).map(
          async (constraint) => (await compiler.compile({ constraint, field: 'format' })).id,
        ),
      );
    // Equal constraints have the same id.
    const expected = await idsOf(plain, { compact: true, closedObjects: true });
    expect(await idsOf(strict, {})).toEqual(expected);
    for (const [index, id] of (await idsOf(plain, {})).entries()) expect(id).not.toBe(expected[index]);
    await strict.close();
  });

  it('writes the JSON of all requests as --structured-outputs-config has it', async () => {
    const structuredOutputs = { disableAnyWhitespace: true, disableAdditionalProperties: true };
    const own = await startTestServer({ folder: 'models/svc-chat', engine: { structuredOutputs } });
    const schema = { type: 'object', properties: { mood: FORMAT_OF_MOOD }, required: ['mood'] };
    const body = { ...CHAT, response_format: { type: 'json_schema', json_schema: { name: 'mood', schema } } };
    const answer = await bodyOf(await own.post('/v1/chat/completions', { ...body, temperature: 1.5 }));
    expect(answer.choices[0].message.content).toMatch(/^\{"mood":"(happy|sad)"\}$/);
    await own.close();
  });

  it('streams the same bytes as it answers whole, alone and beside others', async () => {
    const body = { ...CHAT, ...COMPACT, temperature: 1.5 };
    const streamed = async (): Promise<string> => {
      let text = '';
      for await (const chunk of await svc.client.chat.completions.create({ ...body, stream: true }))
        text += chunk.choices[0]?.delta.content ?? '';
      return text;
    };
    const whole = await svc.client.chat.completions.create(body);
    const together = await Promise.all([
      streamed(),
      streamed(),
      completion({ structured_outputs: { regex: '[a-z]{20,40}' } }),
    ]);
    expect(together.slice(0, 2)).toEqual(Array(2).fill(whole.choices[0]?.message.content));
  });

  it('fills what the parse helper of the official client asks for', async () => {
    const form = z.object({ isHappy: z.boolean(), mood: z.enum(['good', 'bad']) });
    const answer = await svc.client.chat.completions.parse({
      ...CHAT,
      temperature: 0.5,
      max_tokens: 900,
      response_format: zodResponseFormat(form, 'form'),
    });
    const [choice] = answer.choices;
    expect(choice?.finish_reason).toBe('stop');
    expect(form.parse(choice?.message.parsed)).toEqual(JSON.parse(choice!.message.content!));
  });

  it.each([
    [{ structured_outputs: { regex: '[A-Z][a-z]{2,9} is \\d{1,3}' } }, /^[A-Z][a-z]{2,9} is \d{1,3}$/],
    [{ structured_outputs: { choice: ['yes', 'no', 'maybe'] } }, /^(yes|no|maybe)$/],
    [{ structured_outputs: { grammar: 'root ::= ("ab" | "c" root "d")' } }, /^c*abd*$/],
    [{ structured_outputs: { json: '{"enum": ["a", 1]}', disable_any_whitespace: true } }, /^("a"|1)$/],
    [
      {
        structured_outputs: {
          structural_tag: {
            format: {
              type: 'sequence',
              elements: [
                { type: 'tag', begin: '<b>', content: { type: 'regex', pattern: '[0-9]{3}' }, end: '</b>' },
                { type: 'const_string', value: '!' },
              ],
            },
          },
        },
      },
      /^<b>\d{3}<\/b>!$/,
    ],
  ])('keeps to %j', async (body, whole) => {
    expect(await completion(body)).toMatch(whole);
  });

  it('gives the log-probabilities of the model itself', async () => {
    const body = { prompt: 'Once', temperature: 0, max_tokens: 1, logprobs: 1 };
    const free = await bodyOf(await svc.post('/v1/completions', body));
    const bound = { ...body, structured_outputs: { choice: ['7'] } };
    const forced = await bodyOf(await svc.post('/v1/completions', bound));
    expect(forced.choices[0].text).toBe('7');
    const [top] = forced.choices[0].logprobs.top_logprobs;
    expect(Object.keys(top)).toContain(free.choices[0].text);
    expect(top['7']).toBeLessThan(free.choices[0].logprobs.token_logprobs[0]);
  });

  it('says length where the answer was cut', async () => {
    const answer = await svc.client.chat.completions.create({
      ...CHAT,
      max_tokens: 5,
      response_format: FORMAT,
    });
    expect(answer.choices[0]?.finish_reason).toBe('length');
    expect(answer.usage?.completion_tokens).toBe(5);
  });

  it.each([
    [{ structured_outputs: {} }, 'structured_outputs', /exactly one of json, .* and has none/],
    [{ structured_outputs: { json: {}, regex: 'a' } }, 'structured_outputs', /has json and regex/],
    [{ structured_outputs: { regex: '(' } }, 'structured_outputs', /^structured_outputs: /],
    [{ structured_outputs: { json: '{' } }, 'structured_outputs', /must be JSON/],
    [{ structured_outputs: { choice: [] } }, 'structured_outputs', /choice must not be empty/],
    [
      { structured_outputs: { choice: ['a'] }, response_format: { type: 'json_object' } },
      'response_format',
      /^response_format and structured_outputs both say/,
    ],
    [{ response_format: { type: 'json_schema' } }, 'response_format', /json_schema/],
    [
      { structured_outputs: { choice: ['a'] }, use_beam_search: true, n: 2 },
      'structured_outputs',
      /no effect on beam search/,
    ],
  ])('refuses %j, naming the field', async (body, param, message) => {
    expect(await refusal(body)).toMatchObject({
      status: 400,
      param,
      message: expect.stringMatching(message),
    });
  });

  it('names the keyword of a schema that cannot be enforced', async () => {
    const schema = { properties: { a: { pattern: '(?<=a)b' } } };
    const format = { type: 'json_schema', json_schema: { name: 'x', schema } };
    expect(await refusal({ response_format: format }, '/v1/chat/completions')).toMatchObject({
      status: 400,
      param: 'response_format',
      message: expect.stringMatching(/^response_format: .*pattern/),
    });
  });

  it('ends a request that nothing allowed can follow with an error of its own, and goes on', async () => {
    const body = { prompt: 'Once', structured_outputs: { choice: ['yes'] }, allowed_token_ids: [5] };
    expect(await refusal(body)).toMatchObject({
      status: 400,
      param: 'structured_outputs',
      message: expect.stringMatching(/none that structured_outputs and allowed_token_ids would allow/),
    });
    expect(await completion({ structured_outputs: { choice: ['yes'] } })).toBe('yes');
    await expect.poll(() => isIdle(svc.engine)).toBe(true);
  });

  it('ends a request whose grammar can be read in too many ways, and no other', async () => {
    const other = svc.post('/v1/completions', { prompt: 'Once', max_tokens: 200, ignore_eos: true });
    const started = performance.now();
    expect(
      await refusal({ prompt: 'Once', structured_outputs: { grammar: AMBIGUOUS_GRAMMAR } }),
    ).toMatchObject({
      status: 400,
      param: 'structured_outputs',
      message: expect.stringMatching(/^structured_outputs can be read in so many ways/),
    });
    expect(performance.now() - started).toBeLessThan(10_000);
    expect((await bodyOf(await other)).usage.completion_tokens).toBe(200);
    await expect.poll(() => isIdle(svc.engine)).toBe(true);
  });
});
