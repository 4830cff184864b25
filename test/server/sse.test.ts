import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { setImmediate } from 'node:timers/promises';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createHttpApp } from '../../src/http/app.ts';
import { SseStream } from '../../src/http/sse.ts';
import { eventsOf } from './test-server.ts';

const FRAME = `data: ${'x'.repeat(10_000)}\n\n`;
const LAST = 'data: [DONE]\n\n';

let app: FastifyInstance;
/** What the route does with its stream; set by each test. */
let answer: (sse: SseStream, reply: FastifyReply) => Promise<void>;

beforeEach(async () => {
  app = createHttpApp();
  app.get('/stream', async (_request, reply) => {
    reply.header('x-mine', 'kept');
    await answer(new SseStream(reply, 1000), reply);
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
});
afterEach(async () => {
  app.server.closeAllConnections();
  await app.close();
});

async function open(): Promise<IncomingMessage> {
  const [response]: IncomingMessage[] = await once(get(`${app.listeningOrigin}/stream`), 'response');
  return response!;
}

async function textOf(response: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of response.setEncoding('utf8')) text += chunk;
  return text;
}

describe('SseStream', () => {
  it('sends its headers before the first event, with those that the reply had', async () => {
    let finish: () => void = () => {};
    answer = async (sse) => {
      await new Promise<void>((resolve) => {
        finish = resolve;
      });
      sse.end([LAST]);
    };
    const response = await open();
    expect(response.headers).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache',
      'x-mine': 'kept',
    });
    finish();
    expect(await textOf(response)).toBe('data: [DONE]\n\n');
  });

  it('sends what is written within one turn of the event loop in one piece, and soon', async () => {
    let finish: () => void = () => {};
    answer = async (sse) => {
      await new Promise<void>((resolve) => {
        finish = resolve;
      });
      for (let event = 0; event < 50; event++) {
        sse.write([`data: ${event}\n\n`]);
        await null;
      }
      await setImmediate();
      await new Promise<void>((resolve) => {
        finish = resolve;
      });
      sse.end([LAST]);
    };
    const response = await open();
    const first = once(response, 'data');
    finish();
    const [bytes] = await first;
    expect(eventsOf(String(bytes))).toHaveLength(50);
    finish();
    expect(await textOf(response)).toBe(LAST);
  });

  it('keeps little in memory for a reader that is slow, and loses nothing', async () => {
    let largest = 0;
    let numWaits = 0;
    answer = async (sse, reply) => {
      for (let frame = 0; frame < 3000; frame++) {
        if (!sse.write([FRAME])) {
          numWaits += 1;
          await Promise.all([sse.drained(), sse.drained()]);
        }
        largest = Math.max(largest, reply.raw.writableLength);
      }
      sse.end([LAST]);
    };
    const response = await open();
    expect(eventsOf(await textOf(response))).toHaveLength(3001);
    expect(numWaits).toBeGreaterThan(10);
    expect(largest).toBeLessThan(1_000_000);
  });

  it('cuts off a reader that takes nothing before the deadline, and ignores what is written after', async () => {
    let isOver: (writes: boolean[]) => void = () => {};
    const over = new Promise<boolean[]>((resolve) => {
      isOver = resolve;
    });
    answer = async (sse, reply) => {
      while (!reply.raw.destroyed) if (!sse.write([FRAME])) await sse.drained();
      isOver([sse.write([FRAME]), sse.write([FRAME])]);
      await sse.drained();
      sse.end([LAST]);
    };
    const response = await open();
    response.on('error', () => {}).pause();
    expect(await over).toEqual([true, true]);
  });

  it('cuts off a reader that never takes the last events', async () => {
    let closed: Promise<unknown> = Promise.resolve();
    answer = async (sse, reply) => {
      closed = once(reply.raw, 'close');
      for (let frame = 0; frame < 3000; frame++) sse.write([FRAME]);
      sse.end([LAST]);
    };
    const response = await open();
    response.on('error', () => {}).pause();
    await closed;
    expect(response.complete).toBe(false);
  });
});

describe('createHttpApp', () => {
  it('hides what went wrong inside from the client', async () => {
    answer = async () => {};
    const other = createHttpApp();
    other.get('/v1/fault', async () => {
      throw new TypeError('secret is not a function');
    });
    await other.listen({ host: '127.0.0.1', port: 0 });
    const response = await fetch(`${other.listeningOrigin}/v1/fault`);
    expect(response.status).toBe(500);
    expect(await response.text()).not.toContain('secret');
    await other.close();
  });
});
