// Which requests count as in flight, and what ends them.

import type { FastifyReply } from 'fastify';
import { describe, expect, it } from 'vitest';
import { RequestTimeoutError, ShuttingDownError } from '../../src/errors.ts';
import { createHttpApp } from '../../src/http/app.ts';
import { ClientGoneError, InFlightRequests } from '../../src/http/in-flight.ts';
import { portOf } from '../../src/http/listen.ts';
import { closedAfterwards } from '../helpers/closed-afterwards.ts';
import { RawClient } from '../helpers/raw-client.ts';
import { until } from '../helpers/until.ts';

const opened = closedAfterwards();
const STOPPED = new ShuttingDownError('it is shutting down');

/** Of a request: why it was aborted, and whether its client has the whole answer. */
interface Heard {
  readonly reply: FastifyReply;
  readonly reasons: Error[];
  readonly closed: boolean[];
}

/** Requests whose handler has begun. */
let numBegun = 0;

async function start({ timeoutMs = 0, entersLate = false } = {}) {
  const inFlight = new InFlightRequests();
  const heard: Heard[] = [];
  const app = createHttpApp();
  numBegun = 0;
  app.get('/', async ({ id }, reply) => {
    numBegun += 1;
    if (entersLate) await until(() => reply.raw.destroyed);
    const one: Heard = { reply, reasons: [], closed: [] };
    heard.push(one);
    const request = { abort: (reason: Error) => void one.reasons.push(reason) };
    const onClosed = (isComplete: boolean): void => void one.closed.push(isComplete);
    inFlight.add(request, reply, { requestId: id, timeoutMs, onClosed });
    return reply.hijack();
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  opened(app);
  const ask = async (): Promise<RawClient> => {
    const numBefore = numBegun;
    const request = `GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: ${numBefore}\r\n\r\n`;
    const client = new RawClient(portOf(app), request);
    opened({ close: () => client.leave() });
    await until(() => numBegun > numBefore);
    return client;
  };
  return { inFlight, heard, ask };
}

describe('a request', () => {
  it('is in flight until its answer is over, and not aborted by that', async () => {
    const { inFlight, heard, ask } = await start();
    await ask();
    heard[0]!.reply.raw.end('{}');
    await until(() => inFlight.size === 0);
    expect(heard).toMatchObject([{ reasons: [], closed: [true] }]);
  });

  it('is aborted where its client leaves', async () => {
    const { inFlight, heard, ask } = await start();
    const client = await ask();
    client.leave();
    await until(() => inFlight.size === 0);
    expect(heard).toMatchObject([{ reasons: [expect.any(ClientGoneError)], closed: [false] }]);
  });

  it('is aborted at once where its client has left already', async () => {
    const { inFlight, heard, ask } = await start({ entersLate: true });
    const client = await ask();
    client.leave();
    await until(() => heard.length === 1);
    expect(heard).toMatchObject([{ reasons: [expect.any(ClientGoneError)], closed: [false] }]);
    expect(inFlight.size).toBe(0);
  });

  it('is aborted where it takes longer than it may', async () => {
    const { heard, ask } = await start({ timeoutMs: 30 });
    await ask();
    await until(() => heard[0]!.reasons.length > 0);
    expect(heard[0]!.reasons).toEqual([expect.any(RequestTimeoutError)]);
    expect(heard[0]!.reasons[0]!.message).toContain('0.03 seconds');
  });

  it('is not late any more once it is over', async () => {
    const { inFlight, heard, ask } = await start({ timeoutMs: 200 });
    await ask();
    const [first] = heard;
    first!.reply.raw.end('{}');
    await until(() => inFlight.size === 0);
    await ask();
    await until(() => heard[1]!.reasons.length > 0);
    expect(first!.reasons).toEqual([]);
  });

  it('is aborted by its id, and no other one with it', async () => {
    const { inFlight, heard, ask } = await start();
    for (let count = 0; count < 3; count += 1) await ask();
    inFlight.abort('1', STOPPED);
    expect(heard.map(({ reasons }) => reasons)).toEqual([[], [STOPPED], []]);
  });
});

describe('a shutdown', () => {
  it('waits for those that are in flight, and aborts none that end in time', async () => {
    const { inFlight, heard, ask } = await start();
    await ask();
    await ask();
    const drained = inFlight.drain(30_000, STOPPED);
    expect(inFlight.isDraining).toBe(true);
    for (const { reply } of heard) reply.raw.end('{}');
    expect(await drained).toBe(0);
    expect(inFlight.size).toBe(0);
    expect(heard).toMatchObject([{ reasons: [] }, { reasons: [] }]);
  });

  it('aborts the others, and lets them say why', async () => {
    const { inFlight, heard, ask } = await start();
    await ask();
    const drained = inFlight.drain(10, STOPPED);
    await until(() => heard[0]!.reasons.length > 0);
    expect(inFlight.size).toBe(1);
    heard[0]!.reply.raw.end('{}');
    expect(await drained).toBe(1);
    expect([inFlight.size, heard[0]!.reasons]).toEqual([0, [STOPPED]]);
  });

  it('has nothing to wait for where nothing is in flight', async () => {
    const { inFlight } = await start();
    const before = performance.now();
    expect(await inFlight.drain(30_000, STOPPED)).toBe(0);
    expect(performance.now() - before).toBeLessThan(30_000);
  });
});
