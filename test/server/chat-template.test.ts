import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { InferenceEngine } from '../../src/engine/inference-engine.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { errorOf, startTestServer, type TestServer } from './test-server.ts';

const HELLO = [{ role: 'user', content: 'Hello' }];
/** Does what the first message says. */
const OBEDIENT = `{% macro deep() %}{{ deep() }}{% endmacro %}
{% set ns = namespace(text='ab') %}
{% set order = messages[0].content %}
{% if order == 'range' %}{% for i in range(10 ** 9) %}{% endfor %}
{% elif order == 'depth' %}{{ deep() }}
{% elif order == 'size' %}{% for i in range(99) %}{% set ns.text = ns.text ~ ns.text %}{% endfor %}
{% else %}{{ order }}{% endif %}`;

describe('a chat template that was given in place of the model its own', () => {
  let server: TestServer;
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'svc-template-'));
    const chatTemplate = join(folder, 'obedient.jinja');
    await writeFile(chatTemplate, OBEDIENT);
    server = await startTestServer({ engine: { chatTemplate } });
  });
  afterAll(async () => {
    await server.close();
    await rm(folder, { recursive: true });
  });

  const chat = (content: string) =>
    server.post('/v1/chat/completions', {
      messages: [{ role: 'user', content }],
      max_tokens: 1,
      return_token_ids: true,
    });

  it('renders the messages', async () => {
    const body = z
      .object({ prompt_token_ids: z.array(z.number()) })
      .parse(await (await chat('the cat')).json());
    const text = await server.engine.tokenizer?.decode(body.prompt_token_ids, { skipSpecialTokens: false });
    expect(text?.trim()).toBe('the cat');
  });

  it.each([
    ['range', /range\(\) of 1000000000 elements, at most 100000 are allowed/],
    ['depth', /too deep in each other, at most 200 are allowed/],
    ['size', /a text grows to \d+ characters, at most 16777216 are allowed/],
  ])('that goes beyond a limit gets a 400 that names it: %s', async (order, words) => {
    const answer = await chat(order);
    const { status, param, message } = await errorOf(answer);
    expect(status).toBe(400);
    expect(param).toBe('messages');
    expect(message).toMatch(words);
    expect((await chat('still here')).status).toBe(200);
  });
});

it('a model whose own chat template does not compile is told at start, refuses chats and completes prompts', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'svc-template-'));
  writeTinyModel(folder);
  await writeFile(join(folder, 'chat_template.jinja'), '\n{% for %}');
  const warnings: string[] = [];
  const config = { ...ENGINE_DEFAULTS, modelPath: folder, kvCacheMemoryBytes: 2 ** 24 };
  const engine = await InferenceEngine.start(config, { onWarning: (message) => warnings.push(message) });
  await engine.close();
  expect(warnings).toEqual([
    `${join(folder, 'chat_template.jinja')}: the chat template does not compile: line 2: unexpected %}, expected a name; ` +
      'chats will be refused, other prompts are served; --chat-template takes another template',
  ]);
  const server = await startTestServer({ folder });
  try {
    const refused = await server.post('/v1/chat/completions', { messages: HELLO });
    expect(await errorOf(refused)).toMatchObject({
      status: 400,
      message: expect.stringMatching(/does not compile: line 2/),
    });
    expect((await server.post('/v1/completions', { prompt: 'the', max_tokens: 1 })).status).toBe(200);
  } finally {
    await server.close();
    await rm(folder, { recursive: true });
  }
});
