// Adapters over HTTP: further names of models, which come and go while the server runs.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { OverloadedError } from '../../src/errors.ts';
import { writeTinyAdapter } from '../fixtures/tiny-adapter.ts';
import { until } from '../helpers/until.ts';
import { bodyOf, errorOf, isIdle, MODEL, startTestServer, type TestServer } from './test-server.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-adapters-'));
const pathOf = (name: string) => join(folder, name);
for (const [seed, name] of ['red', 'green', 'blue'].entries()) writeTinyAdapter(pathOf(name), { seed });
writeTinyAdapter(pathOf('wide'), { rank: 17 });
afterAll(() => rmSync(folder, { recursive: true }));

const module = (name: string, baseModelName: string | null = null) => ({
  name,
  path: pathOf(name),
  baseModelName,
});
const lora = { modules: [module('red'), module('green', 'the-base')], maxLoras: 4, maxLoraRank: 16 };

let svc: TestServer;
beforeAll(async () => {
  svc = await startTestServer({ engine: { lora }, server: { updatesAdapters: true } });
});
afterAll(() => svc.close());

const PROMPT = Array.from({ length: 40 }, (_, index) => 10 + index);
const REQUEST = { prompt: PROMPT, temperature: 0, max_tokens: 12, seed: 1 };
const ignore_eos = { ignore_eos: true };

async function textOf(model: string, server = svc): Promise<string> {
  const answer = await server.client.completions.create({ ...REQUEST, model, ...ignore_eos });
  expect(answer.model).toBe(model);
  return answer.choices[0]!.text;
}

const load = (body: object, server = svc) => server.post('/v1/load_lora_adapter', body);
const unload = (name: string) => svc.post('/v1/unload_lora_adapter', { lora_name: name });
const cachedOf = (answer: OpenAI.Completion) => answer.usage?.prompt_tokens_details?.cached_tokens;

describe('GET /v1/models', () => {
  it('lists each adapter after the names of the model, with its folder and its parent', async () => {
    const { data } = await bodyOf(await fetch(`${svc.url}/v1/models`));
    const about = data.map(({ id, root, parent, max_model_len }: Record<string, unknown>) => {
      return { id, root, parent, max_model_len };
    });
    expect(about.slice(2)).toEqual([
      { id: 'red', root: pathOf('red'), parent: MODEL, max_model_len: null },
      { id: 'green', root: pathOf('green'), parent: 'the-base', max_model_len: null },
    ]);
    expect(await svc.client.models.retrieve('red')).toMatchObject({ id: 'red', parent: MODEL });
  });
});

describe('a request that names an adapter', () => {
  it('is answered by it, under its name and a fingerprint of its own', async () => {
    const models = [MODEL, 'red', 'green'];
    const texts = await Promise.all(models.map((model) => textOf(model)));
    expect(new Set(texts).size).toBe(3);
    // One after the other, and all in one batch.
    for (const [i, model] of models.entries()) expect(await textOf(model)).toBe(texts[i]);
    const fingerprints = await Promise.all(
      models.map(async (model) => {
        const answer = await svc.client.completions.create({ ...REQUEST, model });
        return answer.system_fingerprint;
      }),
    );
    expect(fingerprints[1]).toMatch(/-lora_[0-9a-f]{12}$/);
    expect(new Set(fingerprints).size).toBe(3);
  });

  it('tells a proxy that reads its stream what model and adapter hold', async () => {
    const headers = { 'x-svc-journal': '1' };
    const contents = await Promise.all(
      [MODEL, 'red', 'green', 'red'].map(async (model) => {
        const response = await svc.post('/v1/completions', { ...REQUEST, model, stream: true }, headers);
        await response.text();
        return response.headers.get('x-svc-contents');
      }),
    );
    expect(new Set(contents).size).toBe(3);
    expect(contents[3]).toBe(contents[1]);
    expect(contents[1]).toBe(`${contents[0]}${/-lora_.*/.exec(contents[1]!)?.[0]}`);
  });

  it('is streamed, and chats are answered', async () => {
    const stream = await svc.client.completions.create({
      ...REQUEST,
      model: 'red',
      stream: true,
      ...ignore_eos,
    });
    let text = '';
    for await (const chunk of stream) {
      expect(chunk.model).toBe('red');
      text += chunk.choices[0]!.text;
    }
    expect(text).toBe(await textOf('red'));
    const messages = [{ role: 'user' as const, content: 'one two three' }];
    const chat = { messages, max_tokens: 5, temperature: 0 };
    const answers = await Promise.all(
      [MODEL, 'red'].map((model) => svc.client.chat.completions.create({ ...chat, model, ...ignore_eos })),
    );
    expect(answers.map(({ model }) => model)).toEqual([MODEL, 'red']);
    expect(answers[1]!.choices[0]!.message.content).not.toBe(answers[0]!.choices[0]!.message.content);
  });

  it('finds its beams with the adapter', async () => {
    // No other request has left blocks of this prompt.
    const prompt = PROMPT.toReversed();
    const search = { ...REQUEST, prompt, max_tokens: 4, n: 2, use_beam_search: true };
    const [model, red] = await Promise.all(
      [MODEL, 'red'].map(async (name) =>
        bodyOf(await svc.post('/v1/completions', { ...search, model: name })),
      ),
    );
    expect(red.choices).toHaveLength(2);
    expect(red.choices).not.toEqual(model.choices);
    // What beams have computed is there for the others of the adapter.
    const later = { ...REQUEST, prompt, model: 'red', max_tokens: 1 };
    expect(cachedOf(await svc.client.completions.create(later))).toBe(32);
  });

  it('shares no prefix with the model or other adapters', async () => {
    const prompt = Array.from({ length: 50 }, (_, index) => 200 - index);
    const ask = (model: string) =>
      svc.client.completions.create({ ...REQUEST, prompt, model, max_tokens: 1 });
    for (const model of [MODEL, 'red', 'green']) expect(cachedOf(await ask(model))).toBe(0);
    for (const model of [MODEL, 'red', 'green']) expect(cachedOf(await ask(model))).toBe(48);
    const salted = async (cache_salt: string) =>
      cachedOf(
        await bodyOf(await svc.post('/v1/completions', { ...REQUEST, prompt, model: 'red', cache_salt })),
      );
    expect([await salted('one'), await salted('two'), await salted('one')]).toEqual([0, 0, 48]);
  });

  it('gets 404 where no adapter has the name', async () => {
    const asked = svc.client.completions.create({ ...REQUEST, model: 'purple' });
    await expect(asked).rejects.toThrow(OpenAI.NotFoundError);
    await expect(asked).rejects.toThrow(
      /`purple` does not exist; this server has tiny, org\/alias, red, green/,
    );
  });
});

describe('adapters that come and go', () => {
  it('are served once they are loaded, and not any more once they are unloaded', async () => {
    const loaded = await load({ lora_name: 'blue', lora_path: pathOf('blue') });
    expect([loaded.status, await loaded.text()]).toEqual([
      200,
      "Success: LoRA adapter 'blue' added successfully.",
    ]);
    await load({ lora_name: 'grey', lora_path: pathOf('blue'), base_model_name: 'of another name' });
    const { data } = await svc.client.models.list();
    const parents = data.map((card) => [card.id, Reflect.get(card, 'parent')]);
    expect(parents).toContainEqual(['blue', MODEL]);
    expect(parents).toContainEqual(['grey', 'of another name']);
    expect((await unload('grey')).status).toBe(200);
    const text = await textOf('blue');
    expect(text).not.toBe(await textOf(MODEL));
    const removed = await unload('blue');
    expect([removed.status, await removed.text()]).toEqual([
      200,
      "Success: LoRA adapter 'blue' removed successfully.",
    ]);
    expect(await errorOf(await svc.post('/v1/completions', { ...REQUEST, model: 'blue' }))).toMatchObject({
      status: 404,
      type: 'NotFoundError',
      param: 'model',
    });
  });

  it('let the requests that run finish, and refuse new ones', async () => {
    await load({ lora_name: 'blue', lora_path: pathOf('blue') });
    const long = { ...REQUEST, model: 'blue', max_tokens: 200, ...ignore_eos };
    const expected = (await svc.client.completions.create(long)).choices[0]!.text;
    const stream = await svc.client.completions.create({ ...long, stream: true });
    let text = '';
    let isUnloaded = false;
    for await (const chunk of stream) {
      text += chunk.choices[0]!.text;
      if (isUnloaded) continue;
      isUnloaded = true;
      expect((await unload('blue')).status).toBe(200);
      const refused = await svc.post('/v1/completions', { ...REQUEST, model: 'blue' });
      expect(refused.status).toBe(404);
    }
    expect(text).toBe(expected);
  });

  it('are replaced in place: running requests go on with the old one', async () => {
    await load({ lora_name: 'blue', lora_path: pathOf('blue') });
    const long = { ...REQUEST, model: 'blue', max_tokens: 200, ...ignore_eos };
    const expected = (await svc.client.completions.create(long)).choices[0]!.text;
    const stream = await svc.client.completions.create({ ...long, stream: true });
    let text = '';
    let isReplaced = false;
    for await (const chunk of stream) {
      text += chunk.choices[0]!.text;
      if (isReplaced) continue;
      isReplaced = true;
      const replaced = await load({ lora_name: 'blue', lora_path: pathOf('red'), load_inplace: true });
      expect(replaced.status).toBe(200);
    }
    expect(text).toBe(expected);
    // The contents count, not the name.
    expect(
      (await svc.client.completions.create({ ...REQUEST, model: 'blue', ...ignore_eos })).choices[0]!.text,
    ).toBe(await textOf('red'));
    await unload('blue');
  });

  it('come and go under traffic, which they do not change', async () => {
    const expected = await textOf('red');
    let isDone = false;
    const traffic = Array.from({ length: 4 }, async () => {
      let count = 0;
      while (!isDone || count === 0) {
        expect(await textOf('red')).toBe(expected);
        count += 1;
      }
    });
    for (let round = 0; round < 3; round += 1) {
      expect((await load({ lora_name: 'blue', lora_path: pathOf('blue') })).status).toBe(200);
      await textOf('blue');
      expect((await unload('blue')).status).toBe(200);
    }
    isDone = true;
    await Promise.all(traffic);
    await until(() => isIdle(svc.engine));
  });

  it.each<[string, object, Record<string, unknown>]>([
    ['without a path', { lora_name: 'x' }, { status: 400, type: 'InvalidUserInput' }],
    ['without a name', { lora_path: folder }, { status: 400, type: 'InvalidUserInput' }],
    [
      'that is loaded',
      { lora_name: 'red', lora_path: pathOf('red') },
      { status: 400, message: expect.stringContaining('red is loaded already') },
    ],
    [
      'with the name of the model',
      { lora_name: MODEL, lora_path: pathOf('blue') },
      { status: 400, message: expect.stringContaining('is a name of the model itself') },
    ],
    [
      'that is nowhere',
      { lora_name: 'x', lora_path: pathOf('nowhere') },
      { status: 400, param: 'lora_path', message: expect.stringContaining('nowhere is no folder') },
    ],
    [
      'of too high a rank',
      { lora_name: 'x', lora_path: pathOf('wide') },
      { status: 400, message: expect.stringContaining('start with --max-lora-rank 17') },
    ],
  ])('are refused %s', async (_, body, expected) => {
    expect(await errorOf(await load(body))).toMatchObject(expected);
  });

  it('are refused beyond --max-loras, until another one leaves', async () => {
    // Adapters of tests before may be in memory until their last requests have ended.
    for (const name of ['a', 'b']) {
      await until(async () => (await load({ lora_name: name, lora_path: pathOf('blue') })).ok);
    }
    const refused = await errorOf(await load({ lora_name: 'c', lora_path: pathOf('blue') }));
    expect(refused.message).toMatch(/4 adapters are in memory, --max-loras allows 4/);
    await unload('a');
    expect((await load({ lora_name: 'c', lora_path: pathOf('blue') })).status).toBe(200);
    for (const name of ['b', 'c']) await unload(name);
  });

  it('are refused where too many wait to be loaded', async () => {
    const { adapters } = svc.engine;
    const loads = Array.from({ length: 40 }, () => adapters.load(module('nowhere')));
    const results = await Promise.allSettled(loads);
    const reasons = results.map((result) => (result.status === 'rejected' ? result.reason : null));
    const refused = reasons.filter((reason) => reason instanceof OverloadedError);
    expect(refused).toHaveLength(40 - 17);
    expect(refused[0]).toMatchObject({ status: 429, message: expect.stringMatching(/^16 adapters wait/) });
    await expect(adapters.load(module('nowhere'))).rejects.toThrow('is no folder');
  });

  it('cannot be unloaded where they are not loaded', async () => {
    expect(await errorOf(await unload('purple'))).toMatchObject({ status: 404, type: 'NotFoundError' });
  });
});

describe('a server', () => {
  it('has the routes only where they are allowed', async () => {
    const closed = await startTestServer({ engine: { lora } });
    expect((await load({ lora_name: 'x', lora_path: pathOf('blue') }, closed)).status).toBe(404);
    await closed.close();
  });

  it('loads no adapters where they are not enabled', async () => {
    const plain = await startTestServer({ server: { updatesAdapters: true } });
    const refused = await errorOf(await load({ lora_name: 'x', lora_path: pathOf('blue') }, plain));
    expect(refused.message).toMatch(/start the server with --enable-lora/);
    await plain.close();
  });

  it('does not start with an adapter that cannot be loaded', async () => {
    const modules = [{ name: 'x', path: pathOf('nowhere'), baseModelName: null }];
    await expect(startTestServer({ engine: { lora: { ...lora, modules } } })).rejects.toThrow(
      /nowhere is no folder/,
    );
  });

  it('tells in its metrics which adapters are at work', async () => {
    let isSeen = false;
    const traffic = (async () => {
      while (!isSeen) await textOf('red');
    })();
    const line = /svc:lora_requests_info\{[^}]*max_lora="4"[^}]*running_lora_adapters="red"/;
    await until(async () => line.test(await (await fetch(`${svc.url}/metrics`)).text()));
    isSeen = true;
    await traffic;
  });
});
