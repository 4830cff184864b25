// Work that no client waits for any more: it does not go on, and holds up nobody.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { resolveSamplingParams } from '../../src/sampling/sampling-params.ts';
import { RawClient, rawPost } from '../helpers/raw-client.ts';
import { until } from '../helpers/until.ts';
import { startTestServer, type TestServer } from './test-server.ts';

let svc: TestServer;
beforeAll(async () => {
  svc = await startTestServer({ folder: 'models/svc-chat' });
});
afterAll(() => svc.close());

const NUM_ABANDONED = 12;
/** Times as long as alone; of what is abandoned one may have begun. */
const MOST_TIMES = NUM_ABANDONED / 3;
/** A busy machine may hold one request up, but not every time. */
const MAX_TRIES = 4;
const BODY = { prompt: 'word '.repeat(400_000) };

async function timeOfAnswer(): Promise<number> {
  const start = performance.now();
  expect((await svc.post('/tokenize', BODY)).status).toBe(200);
  return performance.now() - start;
}

async function abandonMany(): Promise<void> {
  const post = rawPost('/tokenize', BODY);
  const clients = Array.from({ length: NUM_ABANDONED }, () => new RawClient(svc.server.port, post));
  await until(() => svc.server.numInFlight === NUM_ABANDONED);
  for (const client of clients) client.leave();
  await until(() => svc.server.numInFlight === 0);
}

describe('requests whose clients have left', () => {
  it('are not tokenised before those of others', async () => {
    const times: number[] = [];
    do {
      const alone = await timeOfAnswer();
      await abandonMany();
      times.push((await timeOfAnswer()) / alone);
    } while (Math.min(...times) > MOST_TIMES && times.length < MAX_TRIES);
    expect(Math.min(...times), `of ${times}`).toBeLessThan(MOST_TIMES);
  }, 120_000);

  it('wait for no constraint', async () => {
    const json = { enum: Array.from({ length: 10_000 }, (_, index) => `word ${index}`) };
    const params = resolveSamplingParams({ structured_outputs: { json } });
    const client = new AbortController();
    const preparing = svc.engine.prepare({ text: 'a' }, params, { signal: client.signal });
    client.abort(new Error('the client has left'));
    await expect(preparing).rejects.toThrow('the client has left');
  });
});
