import { afterAll, beforeAll, expect, it } from 'vitest';
import { busyFor } from '../helpers/turns.ts';
import { until } from '../helpers/until.ts';
import { bodyOf, eventsOf, startTestServer, type TestServer } from './test-server.ts';

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
  engine.prepare = prepare;
  expect(status).toBe(200);
  expect(turnsWithPrompts.size).toBeGreaterThanOrEqual(NUM_PROMPTS / 4);
});

it('a request has at most so many samples over all its prompts', async () => {
  const statusOf = async (count: number, asked: object): Promise<number> =>
    (await svc.post('/v1/completions/render', { prompt: new Array(count).fill([5]), ...asked })).status;
  for (const asked of [{ n: 128 }, { best_of: 128 }])
    expect([await statusOf(8, asked), await statusOf(9, asked)]).toEqual([200, 400]);
});

it('tells each choice of the prompt that it answers', async () => {
  const prompt = [[10, 11], [12], [13, 14, 15]];
  const body = { prompt, n: 2, max_tokens: 1, return_token_ids: true, echo: true, logprobs: 0 };
  const { choices } = await bodyOf(await svc.post('/v1/completions', body));
  const expected = prompt.flatMap((ids) => [ids, ids]);
  expect(choices.map(({ prompt_token_ids: ids }: { prompt_token_ids: number[] }) => ids)).toEqual(expected);
  expect(choices.map(({ logprobs }: { logprobs: { tokens: string[] } }) => logprobs.tokens.length)).toEqual(
    expected.map((ids) => ids.length + 1),
  );
  const told = new Map<number, number[]>();
  for (const event of eventsOf(await (await svc.post('/v1/completions', { ...body, stream: true })).text())) {
    const [choice] = event === '[DONE]' ? [] : JSON.parse(event).choices;
    if (choice?.prompt_token_ids) told.set(choice.index, choice.prompt_token_ids);
  }
  expect([0, 1, 2, 3, 4, 5].map((index) => told.get(index))).toEqual(expected);
});

it('reads no more prompts of a request whose client has hung up', async () => {
  const { engine } = svc;
  const prepare = engine.prepare.bind(engine);
  const controller = new AbortController();
  let numPrepared = 0;
  engine.prepare = async (...args) => {
    numPrepared += 1;
    if (numPrepared === 3) {
      controller.abort();
      await until(() => svc.server.numInFlight === 0);
    }
    return prepare(...args);
  };
  const body = { model: 'tiny', prompt: new Array(400).fill([10, 11, 12]), max_tokens: 1 };
  const request = fetch(`${svc.url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: controller.signal,
  });
  await expect(request).rejects.toThrow();
  await until(() => svc.server.numInFlight === 0);
  const { status } = await svc.post('/v1/completions', { model: 'tiny', prompt: [10, 11], max_tokens: 1 });
  engine.prepare = prepare;
  expect([status, numPrepared]).toEqual([200, 4]);
});
