import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { createLogger } from '../../src/observability/log.ts';
import { expectedTokens, textOf } from '../helpers/fake-answers.ts';
import type { Trouble } from '../helpers/fake-instance.ts';
import { RawClient, rawPost } from '../helpers/raw-client.ts';
import { until } from '../helpers/until.ts';
import { closeAllAfterEach, TestProxy } from './test-proxy.ts';

closeAllAfterEach();

const NUM_TOKENS = 12;
const BODY = {
  model: 'fake',
  prompt: 'Once upon a time',
  max_tokens: NUM_TOKENS,
  temperature: 0,
  stream: true,
  stream_options: { include_usage: true },
};
const CHAT = { ...BODY, prompt: undefined, messages: [{ role: 'user', content: 'Hi' }] };
const ENDS = ['reset', 'die', 'cut', 'shutdown'] as const;

interface Streamed {
  readonly text: string;
  readonly id: string;
  readonly created: number;
}

/** The stream with the parts replaced that differ from one request to the next. */
async function stream(proxy: TestProxy, body: object): Promise<Streamed> {
  const path = 'messages' in body && body.messages ? '/v1/chat/completions' : '/v1/completions';
  const raw = await (await proxy.post(path, body)).text();
  const ids = new Set([...raw.matchAll(/"id":"([^"]+)"/g)].map(([, id]) => id));
  const times = new Set([...raw.matchAll(/"created":(\d+)/g)].map(([, created]) => created));
  expect([ids.size, times.size]).toEqual([1, 1]);
  const [id = ''] = ids;
  const [created = ''] = times;
  return { text: raw.replaceAll(id, 'ID').replaceAll(created, '0'), id, created: Number(created) };
}

/** Events of one choice in order, as their bytes. */
function eventsOf(text: string, choice: number): string[] {
  return text.split('\n\n').filter((event) => event.includes(`"index":${choice},`));
}

describe('a stream of which nothing has come', () => {
  const slowStart = async (silence: number, tokenMs = 700) => {
    const proxy = await TestProxy.start({ deadlines: { silence } });
    const [p] = await proxy.join('P', { tokenMs });
    const [d] = await proxy.join('D');
    return { proxy, p, d };
  };

  it('begins with comments while P computes the prompt, and is else the same', async () => {
    const { proxy, p } = await slowStart(100, 2000);
    const begun = performance.now();
    const response = await proxy.post('/v1/completions', BODY);
    expect(performance.now() - begun).toBeLessThan(1900);
    expect([response.status, response.headers.get('content-type')]).toEqual([
      200,
      expect.stringMatching(/^text\/event-stream/),
    ]);
    const text = await response.text();
    const events = text.split('\n\n').filter((event) => event !== '' && event !== ': waiting');
    expect(text).toMatch(/^(: waiting\n\n)+data: /);
    expect(events.at(-1)).toBe('data: [DONE]');
    expect(eventsOf(text, 0)).toHaveLength(NUM_TOKENS);
    expect(p?.requests).toHaveLength(1);
  });

  it('tells a refusal as an event once comments have come, and goes to another instance before', async () => {
    const { proxy, d } = await slowStart(100);
    const [other] = await proxy.join('D');
    for (const each of [d, other]) each?.troubles.push({ at: 'request', does: 429 });
    const text = await (await proxy.post('/v1/completions', BODY)).text();
    const events = text.split('\n\n').filter((event) => event !== '' && event !== ': waiting');
    expect(JSON.parse(events[0]!.slice('data: '.length))).toMatchObject({
      error: { message: 'fake: 429', code: 429 },
    });
    expect(events.slice(1)).toEqual(['data: [DONE]']);
    expect([d?.requests.length, other?.requests.length]).toEqual([1, 1]);
  });

  it('tells a fault that two instances have in their own words once comments have come', async () => {
    const { proxy, d } = await slowStart(100);
    const [other] = await proxy.join('D');
    for (const each of [d, other]) each?.troubles.push({ at: 'request', does: 500 });
    const text = await (await proxy.post('/v1/completions', BODY)).text();
    expect(text).toContain('"message":"fake: 500"');
    await until(async () => (await proxy.metric('requests_total', 'status="500"')) === 1);
  });

  it('has a status where it is refused before', async () => {
    const { proxy, d } = await slowStart(60_000);
    d?.troubles.push({ at: 'request', does: 429 });
    expect((await proxy.post('/v1/completions', BODY)).status).toBe(429);
  });
});

describe('a stream whose instance fails in the middle', () => {
  it.each([
    ['completion', BODY],
    ['chat', CHAT],
  ])('goes on byte for byte (%s), at every cut and for every kind of end', async (_, body) => {
    const proxy = await TestProxy.start();
    await proxy.join('PD');
    const { text: whole } = await stream(proxy, body);
    for (let cut = 1; cut <= NUM_TOKENS + 1; cut += 1) {
      const [broken] = await proxy.join('D', { about: { model: 'fake' } });
      const trouble: Trouble = { at: cut, does: ENDS[cut % ENDS.length]! };
      broken?.troubles.push(trouble);
      while (broken?.requests.length === 0) {
        expect((await stream(proxy, body)).text, JSON.stringify(trouble)).toBe(whole);
      }
      await broken?.close();
    }
    expect(await proxy.metric('resumes_total')).toBe(NUM_TOKENS + 1);
  });

  it('goes on over one instance after the other', async () => {
    const proxy = await TestProxy.start();
    const all = await proxy.join('DDDDDD');
    for (const [index, d] of all.entries()) {
      if (index < 5) d.troubles.push({ at: 2 * (index + 1), does: 'die' });
    }
    const { text } = await stream(proxy, BODY);
    expect(all.map(({ requests }) => requests.length)).toEqual([1, 1, 1, 1, 1, 1]);
    const ids = expectedTokens(BODY, 0, NUM_TOKENS);
    expect(eventsOf(text, 0)).toHaveLength(NUM_TOKENS);
    expect(all[5]?.requests[0]?.body.svc_resume?.choices).toEqual([ids.slice(0, 10)]);
  });

  it('goes on at the only instance there is, however often it breaks, as long as it gets on', async () => {
    const proxy = await TestProxy.start();
    const [d] = await proxy.join('D');
    for (let at = 1; at < NUM_TOKENS; at += 1) d?.troubles.push({ at, does: 'reset' });
    const { text } = await stream(proxy, BODY);
    expect(eventsOf(text, 0)).toHaveLength(NUM_TOKENS);
    expect(d?.requests).toHaveLength(NUM_TOKENS);
  });

  it('ends where the only instance there is breaks again and again at the same event', async () => {
    const proxy = await TestProxy.start();
    const [d] = await proxy.join('D');
    for (let times = 0; times < 50; times += 1) d?.troubles.push({ at: 4, does: 'reset' });
    const text = await (await proxy.post('/v1/completions', BODY)).text();
    expect(eventsOf(text, 0)).toHaveLength(4);
    expect(text).toContain('no other one can continue it');
    expect(d!.requests.length).toBeLessThan(5);
  });

  it('goes on over many that shut down before it gets on', async () => {
    const proxy = await TestProxy.start();
    const all = await proxy.join('DDDDDD');
    for (const d of all.slice(0, 5)) d.troubles.push({ at: 'head', does: 'shutdown' });
    const { text } = await stream(proxy, BODY);
    expect(eventsOf(text, 0)).toHaveLength(NUM_TOKENS);
  });

  it('goes on at the only instance there is, under another id than the one that is cancelled', async () => {
    const proxy = await TestProxy.start();
    const [, d] = await proxy.join('PD');
    d?.troubles.push({ at: 4, does: 'reset' });
    const { id, text } = await stream(proxy, BODY);
    expect(eventsOf(text, 0)).toHaveLength(NUM_TOKENS);
    const [first, resumed] = d!.requests.map(({ headers }) => headers['x-request-id']);
    await until(() => d!.cancelled.length > 0);
    expect(d?.cancelled).toEqual([first]);
    expect(`cmpl-${resumed}`).toBe(id);
  });

  it('goes on at an instance that has lost the connection as it was asked to', async () => {
    const proxy = await TestProxy.start();
    const [d1, d2] = await proxy.join('DD');
    d1?.troubles.push({ at: 4, does: 'die' });
    d2?.troubles.push({ at: 'request', does: 'reset' });
    const { text } = await stream(proxy, BODY);
    expect(eventsOf(text, 0)).toHaveLength(NUM_TOKENS);
    expect(d2?.requests).toHaveLength(2);
  });

  it('hears comments while it waits for another one to have room', async () => {
    const proxy = await TestProxy.start({ deadlines: { silence: 50, pause: 200 } });
    const [d1, d2] = await proxy.join('DD');
    d1?.troubles.push({ at: 4, does: 'die' });
    d2?.troubles.push({ at: 'request', does: 429 }, { at: 'request', does: 429 });
    const { text } = await stream(proxy, BODY);
    const sent = eventsOf(text, 0);
    const [, pause = ''] = text.split(sent[3]!);
    expect(sent).toHaveLength(NUM_TOKENS);
    expect(pause).toMatch(/^(\n\n: waiting)+\n\ndata: /);
  });

  it('is told of in the log, and counted as one failure', async () => {
    const lines: string[] = [];
    const logger = createLogger('warn', (line) => lines.push(line));
    const proxy = await TestProxy.start({ logger });
    const [d1] = await proxy.join('DD', { heartbeatMs: 60_000 });
    d1?.troubles.push({ at: 4, does: 'reset' }, { at: 4, does: 'reset' });
    for (let round = 0; round < 3; round += 1) await stream(proxy, BODY);
    expect(await proxy.metric('instance_failures_total', d1?.httpAddress)).toBe(1);
    expect(lines.filter((line) => line.includes(`address=${d1?.httpAddress} why=`))).toHaveLength(1);
  });

  it.each([429, 503])(
    'waits for the only other instance, which has no room just then (%i)',
    async (status) => {
      const proxy = await TestProxy.start({ deadlines: { pause: 20 } });
      const [d1, d2] = await proxy.join('DD');
      d1?.troubles.push({ at: 4, does: 'die' });
      for (let times = 0; times < 5; times += 1) d2?.troubles.push({ at: 'request', does: status });
      const { text } = await stream(proxy, BODY);
      expect(eventsOf(text, 0)).toHaveLength(NUM_TOKENS);
      expect([d2?.requests.length, await proxy.metric('resumes_total')]).toEqual([6, 1]);
    },
  );

  it('waits for one of many other instances to have room, however many have none', async () => {
    const proxy = await TestProxy.start({ deadlines: { pause: 20 } });
    const [broken, ...others] = await proxy.join('DDDDDDDDDD');
    const BUSY = 3;
    for (const d of others) {
      for (let times = 0; times < BUSY; times += 1) d.troubles.push({ at: 'request', does: 429 });
    }
    broken?.troubles.push({ at: 4, does: 'die' });
    const { text } = await stream(proxy, BODY);
    expect(eventsOf(text, 0)).toHaveLength(NUM_TOKENS);
    expect(await proxy.metric('resumes_total')).toBe(1);
  });

  it('whose fault another instance has too ends with that fault', async () => {
    const proxy = await TestProxy.start();
    const all = await proxy.join('DDD');
    for (const d of all) d.troubles.push({ at: 3, does: 'fault' }, { at: 3, does: 'fault' });
    const raw = await (await proxy.post('/v1/completions', BODY)).text();
    expect(raw).toContain('"message":"fake: 500"');
    expect(all.map(({ requests }) => requests.length).toSorted()).toEqual([0, 1, 1]);
    expect((await proxy.instances()).some(({ is_suspect }) => is_suspect)).toBe(false);
    await until(async () => (await proxy.metric('requests_total', 'status="500"')) === 1);
  });

  it.each([
    ['fault', 'shutdown'],
    ['shutdown', 'fault'],
  ] as const)('by a %s, and then by a %s, goes on: the request is not at fault', async (first, second) => {
    const proxy = await TestProxy.start();
    const [d1, d2] = await proxy.join('DDD');
    d1?.troubles.push({ at: 3, does: first });
    d2?.troubles.push({ at: 5, does: second });
    const { text } = await stream(proxy, BODY);
    expect(eventsOf(text, 0)).toHaveLength(NUM_TOKENS);
    expect([d1?.requests.length, d2?.requests.length]).toEqual([1, 1]);
  });

  it.each(['cut', 'shutdown'] as const)(
    'by a %s is asked after others until it is heard of',
    async (does) => {
      const proxy = await TestProxy.start();
      const [d1, d2] = await proxy.join('DD', { heartbeatMs: 60_000 });
      d1?.troubles.push({ at: 3, does });
      for (let round = 0; round < 3; round += 1) await stream(proxy, BODY);
      expect([d1?.requests.length, d2?.requests.length]).toEqual([1, 3]);
    },
  );

  it('goes on where the proxy itself stood still for longer than an instance may be silent', async () => {
    const proxy = await TestProxy.start({ deadlines: { streamSilence: 500, late: 60_000, expiry: 120_000 } });
    await proxy.join('D', { tokenMs: 100 });
    const streamed = stream(proxy, { ...BODY, n: 2, temperature: 1 });
    await until(async () => (await proxy.instances())[0]?.in_flight === 1);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1500);
    const { text } = await streamed;
    expect(eventsOf(text, 0)).toHaveLength(NUM_TOKENS);
    expect(await proxy.metric('resumes_total')).toBe(0);
  });

  it('of an instance without a journal that ends within an event is followed by an event that says so', async () => {
    const proxy = await TestProxy.start();
    const [d] = await proxy.join('D', { isPlain: true });
    d?.troubles.push({ at: 3, does: 'half' });
    const raw = await (await proxy.post('/v1/completions', BODY)).text();
    const error = raw.split('\n\n').find((event) => event.includes('"error"'));
    expect(JSON.parse(error!.slice('data: '.length))).toMatchObject({ error: { code: 503 } });
  });

  it('that begins anew at an instance without a journal ends as one of such an instance', async () => {
    const proxy = await TestProxy.start({ deadlines: { silence: 20 } });
    const [d] = await proxy.join('D');
    const [plain] = await proxy.join('D', { isPlain: true, tokenMs: 60 });
    d?.troubles.push({ at: 'head', does: 'die' });
    plain?.troubles.push({ at: 3, does: 'half' });
    const raw = await (await proxy.post('/v1/completions', { ...BODY, model: undefined })).text();
    expect(plain?.requests).toHaveLength(1);
    const [, , , half, error] = raw.split('\n\n').filter((event) => !event.startsWith(':'));
    expect(half).toBe('data: {"id":');
    expect(JSON.parse(error!.slice('data: '.length))).toMatchObject({ error: { code: 503 } });
  });

  it('waits for room no longer than it may', async () => {
    const proxy = await TestProxy.start({ deadlines: { room: 100, pause: 20 } });
    const [d1, d2] = await proxy.join('DD');
    d1?.troubles.push({ at: 4, does: 'die' });
    for (let times = 0; times < 50; times += 1) d2?.troubles.push({ at: 'request', does: 429 });
    const text = await (await proxy.post('/v1/completions', BODY)).text();
    expect(text).toContain('no other one can continue it');
    expect(d2!.requests.length).toBeLessThan(20);
  });

  it('keeps its id and its time, and the new instance gets what was sent', async () => {
    const proxy = await TestProxy.start();
    const [p, d1, d2] = await proxy.join('PDD');
    d1?.troubles.push({ at: 4, does: 'reset' });
    const { id, created } = await stream(proxy, BODY);
    expect(p?.requests).toHaveLength(1);
    expect(id).toMatch(/^cmpl-[0-9a-f]{32}$/);
    expect(d2?.requests[0]?.headers['x-svc-answer-id']).toBe(d1?.requests[0]?.headers['x-svc-answer-id']);
    expect(d2?.requests[0]?.body.svc_resume).toEqual({
      created,
      choices: [expectedTokens(BODY, 0, 4)],
    });
  });

  it('goes on for each of many choices, in whatever order instances write them', async () => {
    const proxy = await TestProxy.start();
    const [d1, d2] = await proxy.join('DD');
    const body = { ...BODY, n: 3, prompt: ['one', 'two'] };
    d1?.troubles.push({ at: 23, does: 'reset' });
    const { text } = await stream(proxy, body);
    for (let choice = 0; choice < 6; choice += 1) {
      const written = eventsOf(text, choice).map((event) => JSON.parse(event.slice('data: '.length)));
      const texts = written.map(({ choices: [said] }) => said.text).join('');
      expect(texts).toBe(textOf(expectedTokens(body, choice, NUM_TOKENS)));
      expect(written.at(-1)?.choices[0].finish_reason).toBe('length');
    }
    expect(d2?.requests[0]?.body.svc_resume?.choices.flat()).toHaveLength(23);
  });

  it('that samples goes on as the same sample', async () => {
    const proxy = await TestProxy.start();
    const [d1, d2] = await proxy.join('DD');
    d1?.troubles.push({ at: 5, does: 'reset' });
    const { text } = await stream(proxy, { ...BODY, temperature: 1 });
    const { seed } = d1?.requests[0]?.body ?? {};
    expect(d2?.requests[0]?.body.seed).toBe(seed);
    expect(
      eventsOf(text, 0)
        .map((event) => JSON.parse(event.slice(6)).choices[0].text)
        .join(''),
    ).toBe(textOf(expectedTokens({ ...BODY, seed }, 0, NUM_TOKENS)));
  });

  it('starts anew where nothing of it has come', async () => {
    const proxy = await TestProxy.start();
    const [d1, d2] = await proxy.join('DD');
    d1?.troubles.push({ at: 'head', does: 'reset' });
    const { text } = await stream(proxy, BODY);
    expect(eventsOf(text, 0)).toHaveLength(NUM_TOKENS);
    expect(d2?.requests[0]?.body.svc_resume).toBeUndefined();
  });

  it('asks P no more while it waits for room', async () => {
    const proxy = await TestProxy.start({ deadlines: { pause: 20 } });
    const [p, d1, d2] = await proxy.join('PDD');
    d1?.troubles.push({ at: 'head', does: 'die' });
    for (let times = 0; times < 5; times += 1) d2?.troubles.push({ at: 'request', does: 429 });
    const { text } = await stream(proxy, BODY);
    expect(eventsOf(text, 0)).toHaveLength(NUM_TOKENS);
    expect([p?.requests.length, d2?.requests.length]).toEqual([2, 6]);
    await until(() => p?.cancelled.length === 2);
    expect(p?.cancelled).toEqual(p?.requests.map(({ headers }) => headers['x-request-id']));
  });

  it.each([
    ['that could not be repeated', { prompt: ['one', 'two'], temperature: 1 }, {}],
    ['of an instance without a journal', {}, { isPlain: true }],
  ])('%s starts anew over P where nothing of it has come', async (_, more, instance) => {
    const proxy = await TestProxy.start();
    const [p] = await proxy.join('P');
    const [d1, d2] = await proxy.join('DD', instance);
    d1?.troubles.push({ at: 'head', does: 'die' });
    const raw = await (await proxy.post('/v1/completions', { ...BODY, ...more })).text();
    expect(eventsOf(raw, 0)).toHaveLength(NUM_TOKENS);
    expect(raw).not.toContain('"error"');
    const ids = p?.requests.map(({ headers }) => headers['x-request-id']);
    expect(ids).toEqual([d1, d2].map((d) => d?.requests[0]?.headers['x-request-id']));
    await until(() => p?.cancelled.length === 1);
    expect(p?.cancelled).toEqual([ids?.[0]]);
  });

  it('starts anew with the contents of another model where nothing of it has come', async () => {
    const proxy = await TestProxy.start();
    const [d] = await proxy.join('D', { contents: 'first' });
    await proxy.join('D', { contents: 'second' });
    d?.troubles.push({ at: 'head', does: 'die' });
    expect(eventsOf((await stream(proxy, BODY)).text, 0)).toHaveLength(NUM_TOKENS);
  });

  it('that samples without a seed is not begun by one instance and ended by another', async () => {
    const proxy = await TestProxy.start();
    const [d1, d2] = await proxy.join('DD');
    d1?.troubles.push({ at: 3, does: 'die' });
    const body = { ...BODY, prompt: ['one', 'two'], temperature: 1 };
    expect(await (await proxy.post('/v1/completions', body)).text()).toContain(
      'no other one can continue it',
    );
    expect([d1?.requests.length, d2?.requests.length]).toEqual([1, 0]);
  });

  it('of a client that is slow is not given up for the time in which nothing was asked of it', async () => {
    const streamSilence = 600;
    const proxy = await TestProxy.start({ deadlines: { streamSilence } });
    const [d] = await proxy.join('DD');
    // More than the buffers of all connections hold: each event names the model.
    const body = { ...BODY, model: 'm'.repeat(10_000), max_tokens: 3000 };
    const client = new RawClient(proxy.server.port, rawPost('/v1/completions', body));
    client.socket.pause();
    const numEvents = () => d?.requests[0]?.numEvents ?? 0;
    await until(async () => {
      const before = numEvents();
      await sleep(1.5 * streamSilence);
      return before > 0 && numEvents() === before;
    });
    // What the client does not take stays at the instance.
    expect(numEvents()).toBeLessThan(body.max_tokens);
    client.socket.resume();
    await until(() => client.received.endsWith('0\r\n\r\n'));
    expect(client.received).toContain('data: [DONE]');
    expect(await proxy.metric('resumes_total')).toBe(0);
  });

  it('without a word is given up when nothing has come for too long', async () => {
    const proxy = await TestProxy.start({ deadlines: { streamSilence: 1500 } });
    const [d1] = await proxy.join('DD');
    d1?.troubles.push({ at: 3, does: 'stall' });
    const { text } = await stream(proxy, BODY);
    expect(eventsOf(text, 0)).toHaveLength(NUM_TOKENS);
  });

  it('says so and ends where no other instance can go on', async () => {
    const proxy = await TestProxy.start();
    const [d] = await proxy.join('D');
    d?.troubles.push({ at: 3, does: 'die' });
    const raw = await (await proxy.post('/v1/completions', BODY)).text();
    const events = raw.trimEnd().split('\n\n');
    expect(events).toHaveLength(5);
    expect(JSON.parse(events[3]!.slice('data: '.length))).toMatchObject({ error: { code: 503 } });
    expect(events[4]).toBe('data: [DONE]');
  });

  it('and ends so is counted by the status of that, and named in the log', async () => {
    const lines: string[] = [];
    const logger = createLogger('warn', (line) => lines.push(line));
    const proxy = await TestProxy.start({ logger });
    const [d] = await proxy.join('D');
    d?.troubles.push({ at: 3, does: 'die' });
    const headers = { 'x-request-id': 'the-lost-one' };
    await (await proxy.post('/v1/completions', BODY, headers)).text();
    await until(async () => (await proxy.metric('requests_total')) === 1);
    expect(await proxy.metric('requests_total', 'status="503"')).toBe(1);
    expect(lines.filter((line) => line.includes('cut off id=the-lost-one why='))).toHaveLength(1);
  });

  it('is continued by instances of the same model and adapter alone, and clients do not hear of it', async () => {
    const proxy = await TestProxy.start();
    const [d] = await proxy.join('D', { contents: 'first' });
    const [changed] = await proxy.join('D', { contents: 'second' });
    d?.troubles.push({ at: 3, does: 'die' });
    changed?.troubles.push({ at: 1, does: 'stall' });
    while (d?.requests.length === 0) {
      changed?.requests.splice(0);
      const response = await proxy.post('/v1/completions', BODY);
      expect(response.headers.has('x-svc-contents')).toBe(false);
      const text = await response.text();
      if (d.requests.length > 0) expect(text).toContain('no other one can continue it');
    }
    expect(changed?.requests).toHaveLength(1);
    await until(() => changed?.requests[0]?.wasAborted === true);
    await proxy.join('D', { contents: 'second' });
    changed?.troubles.push({ at: 3, does: 'reset' });
    while (changed!.troubles.length > 0) {
      expect(eventsOf((await stream(proxy, BODY)).text, 0)).toHaveLength(NUM_TOKENS);
    }
    expect(await proxy.metric('resumes_total')).toBe(1);
  });

  it('is not continued by an instance of another model where its request names none', async () => {
    const proxy = await TestProxy.start();
    const [d] = await proxy.join('D');
    const [other] = await proxy.join('D', { about: { model: 'other' } });
    d?.troubles.push({ at: 3, does: 'die' });
    const raw = await (await proxy.post('/v1/completions', { ...BODY, model: undefined })).text();
    expect(raw).toContain('no other one can continue it');
    expect([d?.requests.length, other?.requests.length]).toEqual([1, 0]);
  });

  it('is not continued by an instance of another model, nor of an instance that keeps no journal', async () => {
    const proxy = await TestProxy.start();
    const [d] = await proxy.join('D');
    const [other] = await proxy.join('D', { about: { model: 'other' } });
    const [plain] = await proxy.join('D', { isPlain: true });
    d?.troubles.push({ at: 3, does: 'die' });
    expect(await (await proxy.post('/v1/completions', BODY)).text()).toContain('"error"');
    expect([other?.requests.length, plain?.requests.length]).toEqual([0, 0]);
    plain?.troubles.push({ at: 3, does: 'die' });
    const [d2] = await proxy.join('D');
    while (plain?.requests.length === 0) {
      d2?.requests.splice(0);
      other?.requests.splice(0);
      const raw = await (await proxy.post('/v1/completions', { ...BODY, model: undefined })).text();
      if (plain.requests.length > 0) expect(raw).toContain('"error"');
    }
    expect(d2?.requests).toHaveLength(0);
  });
});
