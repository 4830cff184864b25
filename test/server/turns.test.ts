// Clients take turns at the threads for long texts and constraints: what one has brought holds up no other for long.

import { afterAll, beforeAll, expect, it } from 'vitest';
import { until } from '../helpers/until.ts';
import { startTestServer, type TestServer } from './test-server.ts';

let svc: TestServer;
beforeAll(async () => {
  svc = await startTestServer({ folder: 'models/svc-chat', server: { apiKeys: ['many', 'one'] } });
});
afterAll(() => svc.close());

const NUM_REQUESTS = 12;
/** One is under way when the other client comes, and one is before it. */
const MOST_BEFORE = 4;
const LONG_TEXT = 'word '.repeat(100_000);
const CHAT = { messages: [{ role: 'user', content: 'Hello' }], max_tokens: 1 };
const constrained = (number: number) => ({
  ...CHAT,
  structured_outputs: { choice: Array.from({ length: 4000 }, (_, index) => `${number} or ${index}`) },
});

it.each([
  ['long texts', '/tokenize', () => ({ prompt: LONG_TEXT })],
  ['constraints', '/v1/chat/completions', constrained],
])(
  '%s of one client are not all before those of another',
  async (_, path, bodyOf) => {
    const post = async (key: string, number: number): Promise<void> => {
      const { status } = await svc.post(path, bodyOf(number), { authorization: `Bearer ${key}` });
      expect(status).toBe(200);
    };
    let numBefore = 0;
    const many = Array.from({ length: NUM_REQUESTS }, (_, number) =>
      post('many', number).then(() => {
        numBefore += 1;
      }),
    );
    await until(() => svc.server.numInFlight + numBefore === NUM_REQUESTS);
    const numDone = numBefore;
    await post('one', NUM_REQUESTS);
    expect(numBefore - numDone).toBeLessThanOrEqual(MOST_BEFORE);
    await Promise.all(many);
  },
  120_000,
);
