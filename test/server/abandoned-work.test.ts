// Work that no client waits for any more: it does not go on, and holds up nobody.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RawClient, rawPost } from '../helpers/raw-client.ts';
import { until } from '../helpers/until.ts';
import { startTestServer, type TestServer } from './test-server.ts';

let svc: TestServer;
beforeAll(async () => {
  svc = await startTestServer({ folder: 'models/svc-chat' });
});
afterAll(() => svc.close());

const NUM_ABANDONED = 12;
/** A busy machine may hold one request up, but not every time. */
const MAX_TRIES = 4;

/** Seconds of `work` alone, and of work that comes behind as much as `NUM_ABANDONED` clients have left behind. */
async function timesOf(path: string, makeBody: (index: number) => object, work: () => Promise<unknown>) {
  const time = async (run: () => Promise<unknown>): Promise<number> => {
    const start = performance.now();
    await run();
    return (performance.now() - start) / 1000;
  };
  const alone = await time(work);
  const clients = Array.from(
    { length: NUM_ABANDONED },
    (_, index) => new RawClient(svc.server.port, rawPost(path, makeBody(index))),
  );
  await until(() => svc.server.numInFlight === NUM_ABANDONED);
  for (const client of clients) client.leave();
  await until(() => svc.server.numInFlight === 0);
  return { alone, behind: await time(work) };
}

/** Of what the abandoned requests ask for, one may have begun, and one more be about to. */
async function expectPrompt(path: string, makeBody: (index: number) => object, work: () => Promise<unknown>) {
  const ratios: number[] = [];
  do {
    const { alone, behind } = await timesOf(path, makeBody, work);
    ratios.push(behind / alone);
  } while (Math.min(...ratios) > NUM_ABANDONED / 3 && ratios.length < MAX_TRIES);
  expect(Math.min(...ratios), `of ${ratios}`).toBeLessThan(NUM_ABANDONED / 3);
}

describe('requests whose clients have left', () => {
  it('are not tokenised before those of others', async () => {
    const body = { prompt: 'word '.repeat(400_000) };
    await expectPrompt(
      '/tokenize',
      () => body,
      async () => expect((await svc.post('/tokenize', body)).status).toBe(200),
    );
  }, 120_000);
});
