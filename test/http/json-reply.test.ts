import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createHttpApp, type HttpAppOptions } from '../../src/http/app.ts';
import { lazyList } from '../../src/http/json-pieces.ts';
import { replyJson } from '../../src/http/json-reply.ts';
import { yieldTurn } from '../../src/util/yield-turn.ts';
import { busyFor, turnsDuring } from '../helpers/turns.ts';

const LINE = 'word '.repeat(200);

let app: FastifyInstance;
let numMade: number;
beforeEach(() => start());
afterEach(() => stop());

async function start(options: HttpAppOptions = {}): Promise<void> {
  numMade = 0;
  app = createHttpApp(options);
  app.get('/lines/:count', (request, reply) => {
    const count = Number(request.url.split('/').at(-1));
    const lines = lazyList(
      {
        *[Symbol.iterator]() {
          for (let i = 0; i < count; i++) yield i;
        },
      },
      (index) => {
        numMade += 1;
        return { index, text: LINE };
      },
    );
    return replyJson(reply, { lines });
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
}

async function stop(): Promise<void> {
  app.server.closeAllConnections();
  await app.close();
}

async function open(count: number): Promise<IncomingMessage> {
  const [response]: IncomingMessage[] = await once(get(`${app.listeningOrigin}/lines/${count}`), 'response');
  return response!;
}

describe('replyJson', () => {
  it('sends a short answer with its length', async () => {
    const response = await fetch(`${app.listeningOrigin}/lines/2`);
    expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect(response.headers.get('content-length')).toBe(String(JSON.stringify(await response.json()).length));
  });

  it('makes nothing in a turn of the event loop that others have worked long in', async () => {
    let numMadeAtOnce = -1;
    const idle = createHttpApp();
    idle.get('/late', async (_, reply) => {
      await yieldTurn();
      const end = performance.now() + 20;
      while (performance.now() < end);
      const lines = lazyList([1], () => {
        numMade += 1;
        return LINE;
      });
      const sent = replyJson(reply, { lines });
      // What the call does at once, and in what follows it in this turn.
      await null;
      numMadeAtOnce = numMade;
      return sent;
    });
    const url = await idle.listen({ host: '127.0.0.1', port: 0 });
    expect(await (await fetch(`${url}/late`)).json()).toEqual({ lines: [LINE] });
    expect([numMadeAtOnce, numMade]).toEqual([0, 1]);
    await idle.close();
  });

  it('leaves turns to others while it makes a long answer', async () => {
    const slow = createHttpApp();
    slow.get('/slow', (_, reply) => {
      const lines = lazyList(new Array(40).fill('x'.repeat(20_000)), (text) => {
        busyFor(3);
        return text;
      });
      return replyJson(reply, { lines });
    });
    const url = await slow.listen({ host: '127.0.0.1', port: 0 });
    expect(await turnsDuring(fetch(`${url}/slow`).then((answer) => answer.text()))).toBeGreaterThan(10);
    await slow.close();
  });

  it('sends a long answer whole', async () => {
    const response = await fetch(`${app.listeningOrigin}/lines/5000`);
    expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8');
    const lines = Array.from({ length: 5000 }, (_, index) => ({ index, text: LINE }));
    expect(await response.json()).toEqual({ lines });
  });

  it('makes no more of a long answer than its reader takes, and cuts off a reader that takes nothing', async () => {
    await stop();
    await start({ writeTimeoutMs: 300 });
    const response = await open(1_000_000);
    response.on('error', () => {});
    const socket = response.socket;
    socket.pause();
    const numConnections = (): Promise<number> =>
      new Promise((resolve) => app.server.getConnections((_, count) => resolve(count)));
    await expect.poll(numConnections, { timeout: 20_000 }).toBe(0);
    expect(numMade).toBeLessThan(100_000);
    socket.destroy();
  });
});
