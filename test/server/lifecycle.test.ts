import { once } from 'node:events';
import { connect } from 'node:net';
import type { Worker } from 'node:worker_threads';
import OpenAI from 'openai';
import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/errors.ts';
import { Server } from '../../src/server/server.ts';
import { until } from '../helpers/until.ts';
import {
  bodyOf,
  clientOf,
  errorOf,
  eventsOf,
  MODEL,
  startTestServer,
  startTinyEngine,
} from './test-server.ts';

const ADDRESS = { host: '127.0.0.1', port: 0, version: '9.9.9', servedModelNames: [MODEL] as const };
/** A model and a request of it that runs for many seconds unless somebody stops it. */
const LONG = { model: { config: { max_position_embeddings: 20_000 } } };
const ENDLESS = { model: MODEL, prompt: 'Hello', max_tokens: 19_000, ignore_eos: true };

describe('a server whose model is being loaded', () => {
  it('holds its port, answers 503 with Retry-After, and serves once it has an engine', async () => {
    const server = await Server.listen(ADDRESS);
    for (const path of ['/health', '/ping', '/v1/models', '/version']) {
      const response = await fetch(`${server.url}${path}`);
      expect(response.headers.get('retry-after')).toMatch(/^\d+$/);
      expect(await errorOf(response)).toMatchObject({
        status: 503,
        message: expect.stringContaining('being loaded'),
      });
    }
    const asked = clientOf(server.url).completions.create({ model: MODEL, prompt: 'a' });
    await expect(asked).rejects.toBeInstanceOf(OpenAI.InternalServerError);
    const { engine, remove } = await startTinyEngine({});
    server.serve(engine);
    const health = await fetch(`${server.url}/health`);
    expect([health.status, await health.text()]).toEqual([200, '']);
    await server.close();
    await engine.close();
    remove();
  });

  it('says which port is in use', async () => {
    const server = await Server.listen(ADDRESS);
    const second = Server.listen({ ...ADDRESS, port: server.port });
    await expect(second).rejects.toBeInstanceOf(ConfigError);
    await expect(second).rejects.toThrow(`port ${server.port} is already in use on 127.0.0.1`);
    await server.close();
  });

  it('says which address this machine does not have', async () => {
    await expect(Server.listen({ ...ADDRESS, host: '203.0.113.7' })).rejects.toThrow(
      /203\.0\.113\.7: choose another --host/,
    );
    await expect(Server.listen({ ...ADDRESS, host: 'no.such.host.invalid' })).rejects.toBeInstanceOf(
      ConfigError,
    );
  });
});

describe('what a server tells of itself', () => {
  it('is its models, its version with what was chosen, and its load', async () => {
    const svc = await startTestServer(LONG);
    const { info } = svc.engine;
    expect(await bodyOf(await fetch(`${svc.url}/version`))).toEqual({
      version: '9.9.9',
      engine: info,
      numEngines: 1,
    });
    expect(await bodyOf(await fetch(`${svc.url}/load`))).toEqual({ server_load: 0 });
    const { data } = await svc.client.models.list();
    expect(data).toMatchObject([
      { id: MODEL, object: 'model', owned_by: 'svc', max_model_len: 20_000 },
      { id: 'org/alias', root: info.model },
    ]);
    expect(await svc.client.models.retrieve('org/alias')).toMatchObject({ id: 'org/alias' });
    expect((await fetch(`${svc.url}/v1/models/org/alias`)).status).toBe(200);
    const stream = await svc.client.completions.create({ ...ENDLESS, stream: true });
    expect(await bodyOf(await fetch(`${svc.url}/load`))).toEqual({ server_load: 1 });
    stream.controller.abort();
    await svc.close();
  });

  it('is in its log: one line a request, and its parameters but not its text where asked for', async () => {
    const lines: string[] = [];
    const logger = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) });
    const svc = await startTestServer({ server: { logger, logRequests: true } });
    await svc.post('/v1/completions', { prompt: 'secret words', max_tokens: 2, colour: 'red' });
    await svc.post('/v1/completions', { prompt: 'secret words', max_tokens: 2, colour: 'red' });
    await fetch(`${svc.url}/health`);
    await until(() => lines.filter((line) => line.includes('"status":200')).length === 2);
    expect(lines.filter((line) => line.includes('received request'))).toHaveLength(2);
    expect(lines.filter((line) => line.includes('"colour"'))).toHaveLength(1);
    expect(lines.join()).not.toContain('secret');
    expect(lines.join()).not.toContain('/health');
    // Statistics are only for who asks for them.
    expect(lines.join()).not.toContain('throughput');
    await svc.close();
  });

  it('is in its log with as much of its text as may be logged', async () => {
    const lines: string[] = [];
    const logger = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) });
    const svc = await startTestServer({ server: { logger, logRequests: true, maxLoggedLength: 6 } });
    await svc.post('/v1/completions', { prompt: 'secret tale', max_tokens: 2 });
    const [logged] = lines
      .filter((line) => line.includes('received request'))
      .map((line) => JSON.parse(line));
    expect(logged.prompts).toEqual([
      { text: '<s>sec', tokenIds: expect.toSatisfy((ids: number[]) => ids.length === 6 && ids[0] === 0) },
    ]);
    expect(lines.join()).not.toContain('tale');
    await svc.close();
  });

  it('is in its log with some of many prompts, and only with the number of very many', async () => {
    const lines: string[] = [];
    const logger = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) });
    const svc = await startTestServer({ server: { logger, logRequests: true, maxLoggedLength: 6 } });
    for (const count of [9, 40])
      await svc.post('/v1/completions', { prompt: new Array(count).fill([5]), max_tokens: 1 });
    const logged = lines.filter((line) => line.includes('received request')).map((line) => JSON.parse(line));
    expect(logged.map(({ prompts }) => prompts.length)).toEqual([8, 8]);
    expect(logged.map(({ promptTokens }) => promptTokens)).toEqual([new Array(9).fill(1), 'an array of 40']);
    await svc.close();
  });
});

describe('a server that drains', () => {
  it('finishes the streams that it has, refuses what comes, and closes', async () => {
    const svc = await startTestServer(LONG);
    const response = await svc.post('/v1/completions', { ...ENDLESS, max_tokens: 300, stream: true });
    const drained = svc.server.drain(20_000);
    await expect(fetch(`${svc.url}/health`)).rejects.toThrow();
    const events = eventsOf(await response.text());
    expect(events.at(-1)).toBe('[DONE]');
    expect(JSON.parse(events.at(-2)!).choices[0].finish_reason).toBe('length');
    expect(await drained).toBe(0);
    await svc.close();
  });

  it('aborts what is not done in time with an error that says why', async () => {
    const svc = await startTestServer(LONG);
    const stream = await svc.client.completions.create({ ...ENDLESS, n: 8, stream: true });
    const whole = svc.client.completions.create({ ...ENDLESS, n: 8 });
    await until(() => svc.server.numInFlight === 2);
    const answers = Promise.allSettled([
      (async () => {
        for await (const _ of stream);
      })(),
      whole,
    ]);
    expect(await svc.server.drain(50)).toBe(2);
    const [streamed, unary] = await answers;
    expect(streamed).toMatchObject({ reason: { message: expect.stringContaining('shutting down') } });
    expect(unary).toMatchObject({
      reason: { status: 503, message: expect.stringContaining('shutting down') },
    });
    await svc.close();
  });
});

describe('a server whose engine dies', () => {
  it('tells every client, answers /health with 503, and says so to whoever started it', async () => {
    const created = once(process, 'worker');
    const svc = await startTestServer(LONG);
    const [worker]: Worker[] = await created;
    const stream = await svc.client.completions.create({ ...ENDLESS, n: 8, stream: true });
    const whole = svc.client.completions.create({ ...ENDLESS, n: 8 });
    await until(() => svc.server.numInFlight === 2);
    const answers = Promise.allSettled([
      (async () => {
        for await (const _ of stream);
      })(),
      whole,
    ]);
    await worker!.terminate();
    const [streamed, unary] = await answers;
    expect(streamed).toMatchObject({ reason: { message: expect.stringContaining('engine') } });
    expect(unary).toMatchObject({ reason: { status: 500, message: expect.stringContaining('engine') } });
    expect(await svc.engine.died).toBeInstanceOf(Error);
    expect(await errorOf(await fetch(`${svc.url}/health`))).toMatchObject({ status: 503 });
    const late = await svc.post('/v1/completions', { prompt: 'a' });
    expect(await errorOf(late)).toMatchObject({ status: 500, type: 'InternalServerError' });
    await svc.close();
  });
});

it('a client that leaves in the middle of its body is no error of the server', async () => {
  const lines: string[] = [];
  const logger = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) });
  const svc = await startTestServer({ server: { logger } });
  const socket = connect(svc.server.port, '127.0.0.1');
  socket.write(
    'POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n' +
      'Expect: 100-continue\r\n\r\n{"pro',
  );
  // The server wants the rest: it has begun to read the body.
  await once(socket, 'data');
  socket.destroy();
  await until(() => lines.some((line) => line.includes('client left in the middle')));
  expect(lines.filter((line) => JSON.parse(line).level >= pino.levels.values.error!)).toEqual([]);
  await svc.close();
});

it('a request of many prompts causes no warning of the runtime', async () => {
  const warnings: Error[] = [];
  const note = (warning: Error): void => void warnings.push(warning);
  process.on('warning', note);
  const svc = await startTestServer();
  const prompt = Array.from({ length: 20 }, () => 'abc');
  expect((await svc.post('/v1/completions', { prompt, max_tokens: 2 })).status).toBe(200);
  await svc.close();
  process.off('warning', note);
  expect(warnings).toEqual([]);
});
