import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { createLogger } from '../../src/observability/log.ts';
import { collectGarbage } from '../helpers/collect-garbage.ts';
import { MODEL, startTestServer, type TestServer } from './test-server.ts';

/** Whatever a client sends, a line of the log and an error have at most this many characters. */
const MOST = 10_000;
const long = 'x'.repeat(3_000_000);

let svc: TestServer;
let lines: string[] = [];
beforeAll(async () => {
  const logger = createLogger('debug', (line) => lines.push(line));
  svc = await startTestServer({ server: { logger, logRequests: true } });
});
afterAll(() => svc.close());
beforeEach(() => {
  lines = [];
});

const completion = (fields: object): [string, object] => [
  '/v1/completions',
  { model: MODEL, prompt: 'a', max_tokens: 1, ...fields },
];
const chat = (message: object, fields: object = {}): [string, object] => [
  '/v1/chat/completions',
  { model: MODEL, messages: [message], max_tokens: 1, ...fields },
];
const user = { role: 'user', content: 'a' };

// First: names beyond a number are not remembered at all.
it('field names of megabytes leave nothing behind in memory', async () => {
  const used = (): number => {
    collectGarbage();
    return process.memoryUsage().heapUsed;
  };
  const ask = async (index: number): Promise<void> => {
    const response = await svc.post(...completion({ [`${index}${long}`]: 1 }));
    expect(response.status).toBe(200);
  };
  await ask(0);
  const before = used();
  for (let index = 1; index <= 12; index++) await ask(index);
  // Each name has 3 MB.
  await expect.poll(used, { timeout: 10_000 }).toBeLessThan(before + 12_000_000);
});

it.each<[string, [string, object]]>([
  ['the name of a model', completion({ model: long })],
  ['the name of a field', completion({ [long]: 1 })],
  [
    'the names of many fields',
    completion(Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`f${i}`, 1]))),
  ],
  ['a value of the wrong type', completion({ temperature: long })],
  ['a request id', completion({ request_id: long })],
  ['the format of an answer', completion({ response_format: { type: long } })],
  ['a token of a bias', completion({ logit_bias: { [long]: 1 } })],
  ['the reason for a bias', completion({ logit_bias: { 5: long } })],
  ['half a character', completion({ [long]: ['\ud800'] })],
  ['who asks', completion({ user: long, metadata: { [long]: long } })],
  ['a role', chat({ role: long, content: 'a' })],
  ['the type of a content part', chat({ role: 'user', content: [{ type: long }] })],
  ['an effort', chat(user, { reasoning_effort: long })],
  ['a variable of the template', chat(user, { chat_template_kwargs: { [long]: long } })],
])('%s of megabytes is neither logged nor sent back whole', async (_, [path, body]) => {
  const response = await svc.post(path, body);
  expect((await response.text()).length).toBeLessThan(MOST);
  for (const line of lines) expect(line.length).toBeLessThan(MOST);
});

it('a URL of kilobytes is shown by its beginning', async () => {
  for (const path of [
    `/v1/models/${'m'.repeat(8000)}`,
    `/${'p'.repeat(8000)}`,
    `/health?${'q'.repeat(8000)}`,
  ]) {
    const response = await fetch(`${svc.url}${path}`);
    expect((await response.text()).length).toBeLessThan(1000);
  }
  // Two of them are refused, which has a line of its own.
  expect(lines).toHaveLength(5);
  for (const line of lines) expect(line.length).toBeLessThan(1000);
});

it('an encoding of kilobytes is shown by its beginning', async () => {
  const response = await svc.post(...completion({}), { 'content-encoding': 'e'.repeat(8000) });
  expect(response.status).toBe(400);
  expect((await response.text()).length).toBeLessThan(1000);
});

it('the parameters of a request are logged in a line of bounded length', async () => {
  const stop = Array.from({ length: 60 }, (_, index) => `${index}${'s'.repeat(900)}`);
  const response = await svc.post(...completion({ stop, bad_words: ['no'], seed: 7 }));
  expect(response.status).toBe(200);
  const line = lines.find((one) => one.includes('received request'));
  expect(line).toMatch(/"bad_words":\["no"\]/);
  expect(line?.length).toBeLessThan(2000);
});
