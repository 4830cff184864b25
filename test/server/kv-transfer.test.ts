// What instances do for their proxy: POST /kv_transfer/cancel, and bodies with what it adds to them.

import { expect, it } from 'vitest';
import { makeRequestId } from '../../src/cluster/request-id.ts';
import { closedAfterwards } from '../helpers/closed-afterwards.ts';
import { kvTransferConfig } from '../helpers/kv-instance.ts';
import { needsNative } from '../helpers/needs.ts';
import { freePort } from '../helpers/svc-process.ts';
import { until } from '../helpers/until.ts';
import { errorOf, MODEL, startTestServer } from './test-server.ts';

const opened = closedAfterwards();
const LONG = { model: { config: { max_position_embeddings: 20_000 } } };
const ENDLESS = { model: MODEL, prompt: 'Hello', max_tokens: 19_000, ignore_eos: true };

it('a request is cancelled by the id that its proxy has made, which nobody else knows', async () => {
  const svc = opened(await startTestServer({ ...LONG, server: { exchangesKv: true } }));
  const made = makeRequestId('10.0.0.1:1', '10.0.0.2:2');
  const cancel = (request_id: string) => svc.post('/kv_transfer/cancel', { request_id });
  const running = async () => (await svc.engine.stats()).running;
  const proxied = svc.post('/v1/completions', ENDLESS, { 'x-request-id': made });
  const direct = svc.client.completions.create(ENDLESS, { headers: { 'x-request-id': 'job-1' } });
  const directEnd = expect(direct).rejects.toThrow();
  await until(async () => (await running()) === 2);
  expect(await errorOf(await cancel('job-1'))).toMatchObject({
    status: 400,
    message: 'request_id must be an id that a proxy has made of two addresses, got "job-1"',
    param: 'request_id',
  });
  expect((await cancel(made)).status).toBe(200);
  const ended = await errorOf(await proxied);
  expect(ended).toMatchObject({ status: 503, message: 'The request was cancelled by its proxy' });
  await until(async () => (await running()) === 1);
  await svc.server.close();
  await directEnd;
});

it('blocks that are kept for a request are given up with it', needsNative, async () => {
  const kvTransfer = kvTransferConfig({ role: 'kv_producer', port: await freePort(), sendType: 'GET' });
  const svc = opened(
    await startTestServer({ engine: { device: 'cpu', kvTransfer }, server: { exchangesKv: true } }),
  );
  const kept = async () => (await svc.engine.stats()).kvTransfer?.send;
  const id = makeRequestId(`127.0.0.1:${kvTransfer.port}`, '127.0.0.1:1');
  const body = { model: MODEL, prompt: 'Hello there', max_tokens: 1 };
  expect((await svc.post('/v1/completions', body, { 'x-request-id': id })).status).toBe(200);
  expect(await kept()).toMatchObject({ holding: 1, cancelled: 0 });
  expect((await svc.post('/kv_transfer/cancel', { request_id: id })).status).toBe(200);
  await expect.poll(kept).toMatchObject({ holding: 0, cancelled: 1 });
});

it(
  'blocks are asked for, but not where the logprobs of the prompt are to be computed',
  needsNative,
  async () => {
    const kvTransfer = kvTransferConfig({ role: 'kv_consumer', port: await freePort() });
    const svc = opened(
      await startTestServer({ engine: { device: 'cpu', kvTransfer }, server: { exchangesKv: true } }),
    );
    const numAsked = async (): Promise<number> => {
      const { kvTransfer: stats } = await svc.engine.stats();
      // Nobody is there to answer.
      return stats?.receive.recomputed.peer_gone ?? 0;
    };
    const ask = (fields: object): Promise<Response> => {
      const id = makeRequestId('127.0.0.1:1', `127.0.0.1:${kvTransfer.port}`);
      // A prompt of whole blocks: for less nobody waits, and what nobody waits for is not counted once the answer is there.
      const body = { model: MODEL, prompt: 'Hello there. '.repeat(10), max_tokens: 1, ...fields };
      return svc.post('/v1/completions', body, { 'x-request-id': id });
    };
    expect((await ask({})).status).toBe(200);
    await expect.poll(numAsked, { timeout: 5000 }).toBe(1);
    expect((await ask({ prompt_logprobs: 1 })).status).toBe(200);
    expect(await numAsked()).toBe(1);
  },
);

it.each([
  [true, 400],
  [false, 413],
])(
  'a body may be longer than one of a client where a proxy may have added to it (%s)',
  async (exchangesKv, status) => {
    const svc = opened(await startTestServer({ server: { exchangesKv } }));
    const longest = 8 * 1024 * 1024;
    const body = `{"prompt":"${'a'.repeat(longest)}","seed":1}`;
    expect((await svc.post('/v1/completions', body)).status).toBe(status);
    expect((await svc.post('/v1/completions', 'a'.repeat(2 * longest + 1))).status).toBe(413);
  },
);
