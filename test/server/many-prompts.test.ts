import { afterAll, beforeAll, expect, it } from 'vitest';
import { busyFor } from '../helpers/turns.ts';
import { startTestServer, type TestServer } from './test-server.ts';

const NUM_PROMPTS = 48;

let svc: TestServer;
beforeAll(async () => {
  svc = await startTestServer();
});
afterAll(() => svc.close());

it('reading the prompts of one request leaves turns of the event loop to others', async () => {
  let turn = 0;
  const count = (): void => {
    turn += 1;
    timer = setImmediate(count);
  };
  let timer = setImmediate(count);
  const turnsWithPrompts = new Set<number>();
  const { engine } = svc;
  const prepare = engine.prepare.bind(engine);
  engine.prepare = (...args) => {
    busyFor(3);
    turnsWithPrompts.add(turn);
    return prepare(...args);
  };
  const prompt = Array.from({ length: NUM_PROMPTS }, () => [10, 11, 12]);
  const { status } = await svc.post('/v1/completions', { model: 'tiny', prompt, max_tokens: 1 });
  clearImmediate(timer);
  expect(status).toBe(200);
  expect(turnsWithPrompts.size).toBeGreaterThanOrEqual(NUM_PROMPTS / 4);
});
