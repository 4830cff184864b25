import { describe, expect, it } from 'vitest';
import { createLogger } from '../../src/observability/log.ts';
import { expectedTokens, textOf } from '../helpers/fake-answers.ts';
import type { Trouble } from '../helpers/fake-instance.ts';
import { until } from '../helpers/until.ts';
import { closeAllAfterEach, TestProxy } from './test-proxy.ts';

closeAllAfterEach();

const BODY = { model: 'fake', prompt: 'Once upon a time', max_tokens: 5, temperature: 0 };
const TEXT = textOf(expectedTokens(BODY, 0, 5));

/** Everything that can go wrong before the first byte of an answer. */
const TROUBLES: readonly Trouble[] = [
  { at: 'request', does: 'reset' },
  { at: 'request', does: 'die' },
  { at: 'head', does: 'reset' },
  { at: 'request', does: 500 },
  { at: 'request', does: 503 },
  { at: 'request', does: 429 },
];

/** In the place of a trouble for a request that has none. */
const NONE: Trouble = { at: 1000, does: 'stall' };

async function answerOf(proxy: TestProxy): Promise<string | undefined> {
  return (await proxy.client.completions.create(BODY)).choices[0]?.text;
}

describe('a prefill instance that fails', () => {
  it.each(TROUBLES)('(%o) is replaced by another one, and both it and D are told', async (trouble) => {
    const proxy = await TestProxy.start();
    const [p1, p2, d] = await proxy.join('PPD');
    p1?.troubles.push(trouble);
    expect(await answerOf(proxy)).toBe(TEXT);
    expect([p1?.requests.length, p2?.requests.length, d?.requests.length]).toEqual([1, 1, 1]);
    expect(d?.requests[0]?.headers['x-request-id']).toBe(p2?.requests[0]?.headers['x-request-id']);
    await until(() => d?.cancelled.length === 1);
    expect(d?.cancelled).toEqual([p1?.requests[0]?.headers['x-request-id']]);
    expect(await proxy.metric('retries_total', 'prefill')).toBe(1);
  });

  it('and has no replacement leaves the prompt to D', async () => {
    const proxy = await TestProxy.start();
    const [p, d] = await proxy.join('PD');
    p?.troubles.push({ at: 'request', does: 500 });
    expect(await answerOf(proxy)).toBe(TEXT);
    expect(d?.requests[0]?.headers['x-request-id']).not.toContain('prefill_addr');
    expect(await proxy.metric('prefill_skipped_total')).toBe(1);
  });

  it('as others do is replaced twice, and then D computes the prompt', async () => {
    const proxy = await TestProxy.start();
    const all = await proxy.join('PPPPPD');
    for (const instance of all.slice(0, 5)) instance.troubles.push({ at: 'request', does: 503 });
    expect(await answerOf(proxy)).toBe(TEXT);
    expect(all.map(({ requests }) => requests.length)).toEqual([1, 1, 1, 0, 0, 1]);
    await until(() => all[5]?.cancelled.length === 3);
  });

  it('after it has computed a prompt for a D that was full is replaced, too', async () => {
    const proxy = await TestProxy.start();
    const [p1, p2, d1] = await proxy.join('PPDD');
    p1?.troubles.push(NONE, { at: 'request', does: 500 });
    d1?.troubles.push({ at: 'request', does: 429 });
    expect(await answerOf(proxy)).toBe(TEXT);
    expect([p1?.requests.length, p2?.requests.length]).toEqual([2, 1]);
  });

  it('with a fault is named in the log once until it is heard of, and not suspected', async () => {
    const lines: string[] = [];
    const logger = createLogger('warn', (line) => lines.push(line));
    const proxy = await TestProxy.start({ logger });
    const [p] = await proxy.join('PD', { heartbeatMs: 60_000 });
    for (let round = 0; round < 3; round += 1) {
      p?.troubles.push({ at: 'request', does: 500 });
      await answerOf(proxy);
    }
    expect(lines.filter((line) => line.includes(`address=${p?.httpAddress} why=`))).toHaveLength(1);
    expect(await proxy.metric('instance_failures_total', p?.httpAddress)).toBe(3);
    expect((await proxy.instances()).some(({ is_suspect }) => is_suspect)).toBe(false);
  });

  it('and is out of reach is asked no more until it says that it is there', async () => {
    const proxy = await TestProxy.start();
    const [p1, p2] = await proxy.join('PPD');
    p1?.die();
    await proxy.untilSilent(p1!);
    for (let round = 0; round < 4; round += 1) await answerOf(proxy);
    expect(p2?.requests).toHaveLength(4);
    expect(await proxy.metric('instance_failures_total')).toBe(1);
  });
});

describe('a decode instance that fails before the first byte', () => {
  it.each(TROUBLES)('(%o) is replaced by another one under an id of its own', async (trouble) => {
    const proxy = await TestProxy.start();
    const [p, d1, d2] = await proxy.join('PDD');
    d1?.troubles.push(trouble);
    expect(await answerOf(proxy)).toBe(TEXT);
    expect([d1?.requests.length, d2?.requests.length]).toEqual([1, 1]);
    const ids = p?.requests.map(({ headers }) => headers['x-request-id']);
    expect(ids).toEqual([d1, d2].map((d) => d?.requests[0]?.headers['x-request-id']));
    await until(() => p?.cancelled.length === 1);
    expect(p?.cancelled).toEqual([ids?.[0]]);
    expect(await proxy.metric('retries_total', 'decode')).toBe(1);
  });

  it('is asked once more where it is the only one and has only lost the connection', async () => {
    const proxy = await TestProxy.start();
    const [d] = await proxy.join('D');
    d?.troubles.push({ at: 'request', does: 'reset' });
    expect(await answerOf(proxy)).toBe(TEXT);
    expect(d?.requests).toHaveLength(2);
  });

  it('with a fault that the next one has too is believed', async () => {
    const proxy = await TestProxy.start();
    const all = await proxy.join('DDD');
    for (const d of all) d.troubles.push({ at: 'request', does: 500 });
    const answered = await proxy.post('/v1/completions', BODY);
    expect([answered.status, answered.headers.get('x-refused')]).toEqual([500, 'yes']);
    expect(all.reduce((sum, { requests }) => sum + requests.length, 0)).toBe(2);
  });

  it('because it is about to leave is asked after others until it is heard of', async () => {
    const proxy = await TestProxy.start();
    const [d1, d2] = await proxy.join('DD', { heartbeatMs: 60_000 });
    d1?.troubles.push({ at: 'request', does: 503 });
    for (let round = 0; round < 3; round += 1) expect(await answerOf(proxy)).toBe(TEXT);
    expect([d1?.requests.length, d2?.requests.length]).toEqual([1, 3]);
  });

  it('because it is full passes that on when all are', async () => {
    const proxy = await TestProxy.start();
    const all = await proxy.join('DDD');
    for (const d of all) d.troubles.push({ at: 'request', does: 429 });
    const answered = await proxy.post('/v1/completions', BODY);
    expect([answered.status, answered.headers.get('x-refused')]).toEqual([429, 'yes']);
    expect(all.map(({ requests }) => requests.length)).toEqual([1, 1, 1]);
  });

  it('because it is full is not asked in place of one that has room, however many are full', async () => {
    const proxy = await TestProxy.start();
    const all = await proxy.join('DDDDDDDDDD');
    const idle = all.pop()!;
    for (const d of all) {
      for (let times = 0; times < 20; times += 1) d.troubles.push({ at: 'request', does: 429 });
    }
    for (let times = 0; times < 10; times += 1) {
      expect((await proxy.post('/v1/completions', BODY)).status).toBe(200);
    }
    expect(idle.requests).toHaveLength(10);
  });

  it('because it is full lets no second P compute the prompt', async () => {
    const proxy = await TestProxy.start();
    const all = await proxy.join('PPPDDD');
    for (const d of all.slice(3)) d.troubles.push({ at: 'request', does: 429 });
    expect((await proxy.post('/v1/completions', BODY)).status).toBe(429);
    expect(all.map(({ requests }) => requests.length)).toEqual([3, 0, 0, 1, 1, 1]);
  });

  it('in a request that samples is replaced without another answer', async () => {
    const proxy = await TestProxy.start();
    const [d1, d2] = await proxy.join('DD');
    d1?.troubles.push({ at: 'head', does: 'reset' });
    await proxy.client.completions.create({ model: 'fake', prompt: 'a' });
    expect(d2?.requests[0]?.body.seed).toBe(d1?.requests[0]?.body.seed);
  });

  it('stuck until it is missed is replaced then', async () => {
    const proxy = await TestProxy.start({ deadlines: { late: 500, expiry: 1500 } });
    const [d1, d2] = await proxy.join('DD');
    d1?.troubles.push({ at: 'request', does: 'stall' });
    const asked = answerOf(proxy);
    await until(() => d1?.requests.length === 1);
    d1?.fallSilent();
    expect(await asked).toBe(TEXT);
    expect(d2?.requests).toHaveLength(1);
  });
});

describe('a request that ends the instances that get it', () => {
  it('is sent to three of them, prefill instances included, and named in the log', async () => {
    const lines: string[] = [];
    const logger = createLogger('error', (line) => lines.push(line));
    const proxy = await TestProxy.start({ logger });
    const all = await proxy.join('PPDDDD');
    for (const instance of all) instance.troubles.push({ at: 'request', does: 'die' });
    const answered = await proxy.post('/v1/completions', BODY, { 'x-request-id': 'the-poison' });
    expect(answered.status).toBe(502);
    expect(await answered.text()).toContain('have ended or lost the connection with this request');
    expect(all.slice(0, 2).map(({ requests }) => requests.length)).toEqual([1, 1]);
    expect(all.reduce((sum, { requests }) => sum + requests.length, 0)).toBe(3);
    expect(lines).toEqual([expect.stringMatching(/ERROR .* id=the-poison /)]);
  });

  it('within a stream, too, unless it has got on', async () => {
    const proxy = await TestProxy.start();
    const all = await proxy.join('DDDDDD');
    for (const [index, at] of [1, 2, 3, 3, 3, 3].entries()) all[index]?.troubles.push({ at, does: 'die' });
    const text = await (await proxy.post('/v1/completions', { ...BODY, stream: true })).text();
    expect(text).toContain('"code":502');
    expect(all.map(({ requests }) => requests.length)).toEqual([1, 1, 1, 1, 1, 0]);
  });

  it('as they are to go on with a stream, too', async () => {
    const proxy = await TestProxy.start();
    const all = await proxy.join('DDDDDD');
    for (const [index, d] of all.entries()) d.troubles.push({ at: index === 0 ? 2 : 'request', does: 'die' });
    const text = await (await proxy.post('/v1/completions', { ...BODY, stream: true })).text();
    expect(text).toContain('"code":502');
    expect(all.map(({ requests }) => requests.length)).toEqual([1, 1, 1, 0, 0, 0]);
  });

  it.each([
    { types: 'PPPD', at: 'request', stream: false },
    { types: 'DDDD', at: 'request', stream: false },
    { types: 'DDDD', at: 2, stream: true },
  ] as const)('is not one that instances had which end all at once (%o)', async ({ types, at, stream }) => {
    const proxy = await TestProxy.start();
    const all = await proxy.join(types);
    for (const instance of all.slice(0, 3)) instance.troubles.push({ at, does: 'die' });
    // What is written to it is lost, as long as nobody knows.
    all[2]?.fallSilent();
    await proxy.untilSilent(all[2]!);
    const answered = await proxy.post('/v1/completions', { ...BODY, stream });
    expect(answered.status).toBe(200);
    expect(await answered.text()).not.toContain('error');
    expect(all.map(({ requests }) => requests.length)).toEqual([1, 1, 0, 1]);
  });

  it('is not one that instances never got', async () => {
    const proxy = await TestProxy.start();
    const [d1, d2, d3, d4] = await proxy.join('DDDD');
    for (const d of [d1, d2, d3]) d?.die();
    expect(await answerOf(proxy)).toBe(TEXT);
    expect(d4?.requests).toHaveLength(1);
  });
});

describe('without a decode instance', () => {
  it('a request gets 503 with Retry-After and the error body of the protocol', async () => {
    const proxy = await TestProxy.start();
    await proxy.join('P');
    const answered = await proxy.post('/v1/completions', BODY);
    expect(answered.status).toBe(503);
    expect(Number(answered.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(answered.headers.get('x-request-id')).toMatch(/^[0-9a-f]{32}$/);
    expect(await answered.json()).toEqual({
      error: { message: expect.stringContaining('decode'), type: expect.any(String), param: null, code: 503 },
    });
  });

  it('the models are nobody’s to name', async () => {
    const proxy = await TestProxy.start();
    expect((await fetch(`${proxy.url}/v1/models`)).status).toBe(503);
  });
});

describe('a request with a deadline', () => {
  it('ends with 504 when that has passed, and the instance is let go', async () => {
    const proxy = await TestProxy.start({ config: { requestTimeout: 1.5 } });
    const [d] = await proxy.join('D');
    d?.troubles.push({ at: 'request', does: 'stall' });
    const answered = await proxy.post('/v1/completions', BODY);
    expect(answered.status).toBe(504);
    expect(await answered.json()).toMatchObject({
      error: { message: expect.stringContaining('1.5 seconds') },
    });
    await until(() => d?.requests[0]?.wasAborted === true);
  });
});
