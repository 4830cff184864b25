// Fields that no version of a protocol has are taken, and named in the log.

import { pino } from 'pino';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startTestServer, type TestServer } from './test-server.ts';

const lines: string[] = [];
let svc: TestServer;
beforeAll(async () => {
  const logger = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) });
  svc = await startTestServer({ server: { logger } });
});
afterAll(() => svc.close());

const COMPLETION = { prompt: 'a', max_tokens: 1 };
const CHAT = { messages: [{ role: 'user', content: 'a' }], max_tokens: 1 };

/** Names in the lines of the log about the answer to `body`, line by line. */
async function namedFor(path: string, body: object): Promise<string[][]> {
  lines.splice(0);
  expect((await svc.post(path, body)).status).toBe(200);
  return lines.map((line) => JSON.parse(line).fields);
}

it.each([
  ['/v1/completions', { ...COMPLETION, user: 'me', best_of: 1, guided_json: null }],
  ['/v1/chat/completions', { ...CHAT, verbosity: 'low', session_id: 'a', audio: null, guided_regex: null }],
  ['/v1/responses', { input: 'a', max_tool_calls: 1, service_tier: 'auto', truncation: 'disabled' }],
  ['/v1/messages', { ...CHAT, speed: 'fast', metadata: { user_id: 'me' }, container: null }],
])('%s names them once, and no field that it knows', async (path, known) => {
  const unknown = `colour_of${path}`;
  expect(await namedFor(path, known)).toEqual([]);
  expect(await namedFor(path, { ...known, [unknown]: 'red' })).toEqual([[unknown]]);
  expect(await namedFor(path, { ...known, [unknown]: 'blue' })).toEqual([]);
});

it('of many, some are named with each request, until the log has named enough of them', async () => {
  const own = (count: number, prefix: string): object =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`${prefix}_${index}`, 1]));
  const many = { ...COMPLETION, ...own(25, 'many') };
  const named = [await namedFor('/v1/completions', many), await namedFor('/v1/completions', many)];
  expect(named.map(([fields]) => fields?.length)).toEqual([20, 5]);
  lines.splice(0);
  for (let time = 0; time < 55; time += 1)
    await svc.post('/v1/completions', { ...COMPLETION, ...own(20, `time_${time}`) });
  const numNamed = lines.flatMap((line) => JSON.parse(line).fields).length;
  expect(numNamed).toBeLessThan(1000);
  expect(numNamed).toBeGreaterThan(1000 - 50);
  expect(await namedFor('/v1/completions', { ...COMPLETION, one_more: 1 })).toEqual([]);
});
