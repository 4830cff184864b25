import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createHttpApp } from '../../src/http/app.ts';
import { PacedWriter } from '../../src/http/paced-writer.ts';
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

/** What a connection brings for `count` requests at once, without the date. */
async function bytesOf(path: string, version: string, count = 1): Promise<string> {
  const socket = connect(Number(new URL(app.listeningOrigin).port), '127.0.0.1').setEncoding('latin1');
  const request = (isLast: boolean): string =>
    `GET ${path} HTTP/${version}\r\nhost: here\r\nx-request-id: 1\r\n${isLast ? 'connection: close\r\n' : ''}\r\n`;
  socket.write(Array.from({ length: count }, (_, index) => request(index === count - 1)).join(''));
  let bytes = '';
  for await (const part of socket) bytes += part;
  return bytes.replaceAll(/^date: .*\r\n/gim, '');
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
      'x-accel-buffering': 'no',
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

  it.each(['1.0', '1.1'])('writes the bytes that node would write by HTTP/%s', async (version) => {
    const frames = [
      'data: plain\n\n',
      'data: \u{e9}\u{20ac}\u{1f600}\n\n',
      `data: \ud83d${'x'.repeat(300)}\n\n`,
    ];
    const inTurns = async (write: (frame: string) => void): Promise<void> => {
      for (const frame of frames) {
        write(frame);
        await setImmediate();
        await setImmediate();
      }
    };
    answer = async (sse) => {
      await inTurns((frame) => sse.write([frame]));
      sse.end([LAST]);
    };
    const ours = await bytesOf('/stream', version);
    answer = async (_sse, { raw }) => {
      await inTurns((frame) => raw.write(frame));
      raw.end(LAST);
    };
    expect(ours).toEqual(await bytesOf('/stream', version));
    expect(ours).toContain(Buffer.from('\u{1f600}').toString('latin1'));
  });

  it('goes on after an empty text, which would be the chunk that ends an answer', async () => {
    answer = async (sse, { raw }) => {
      sse.write(['']);
      new PacedWriter(raw, 1000).write('');
      // Nothing holds it up.
      await sse.drained();
      await setImmediate();
      sse.end([LAST]);
    };
    expect(await textOf(await open())).toBe(LAST);
  });

  it('ends with all that was written in the same turn', async () => {
    answer = async (sse) => {
      sse.write(['data: 1\n\n', 'data: 2\n\n']);
      sse.end(['data: 3\n\n', LAST]);
    };
    expect(eventsOf(await textOf(await open()))).toEqual(['1', '2', '3', '[DONE]']);
  });

  it('writes nothing behind its end', async () => {
    answer = async (sse) => sse.end([LAST]);
    const once = await bytesOf('/stream', '1.1', 2);
    answer = async (sse, { raw }) => {
      sse.end([LAST]);
      sse.write([FRAME]);
      const writer = new PacedWriter(raw, 1000);
      writer.write(FRAME);
      writer.end(FRAME);
      sse.end([FRAME]);
    };
    expect(await bytesOf('/stream', '1.1', 2)).toBe(once);
  });

  it('keeps the order of answers where a client asks twice without waiting', async () => {
    let numAnswers = 0;
    answer = async (sse, { raw }) => {
      const number = numAnswers++;
      // The second answer is written while the first is open.
      for (let event = 0; event < 3; event++) {
        sse.write([`data: ${number}.${event}\n\n`]);
        await setImmediate();
      }
      while (number === 0 && numAnswers === 1) await setImmediate();
      if (number === 0) await setImmediate();
      sse.end([LAST]);
      await once(raw, 'close');
    };
    const bytes = await bytesOf('/stream', '1.1', 2);
    expect([...bytes.matchAll(/data: (\S+)/g)].map(([, data]) => data)).toEqual([
      '0.0',
      '0.1',
      '0.2',
      '[DONE]',
      '1.0',
      '1.1',
      '1.2',
      '[DONE]',
    ]);
  });

  it('keeps little in memory for a reader that is slow, and loses nothing', async () => {
    let largest = 0;
    let numWaits = 0;
    const numListeners = ({ raw }: FastifyReply): (number | undefined)[] => [
      raw.listenerCount('close'),
      raw.socket?.listenerCount('drain'),
    ];
    let listeners: unknown[] = [];
    answer = async (sse, reply) => {
      const before = numListeners(reply);
      for (let frame = 0; frame < 3000; frame++) {
        if (!sse.write([FRAME])) {
          numWaits += 1;
          await Promise.all([sse.drained(), sse.drained()]);
        }
        largest = Math.max(largest, reply.raw.writableLength);
      }
      await sse.drained();
      listeners = [numListeners(reply), before];
      sse.end([LAST]);
    };
    const response = await open();
    expect(eventsOf(await textOf(response))).toHaveLength(3001);
    expect(numWaits).toBeGreaterThan(0);
    expect(largest).toBeLessThan(1_000_000);
    expect(listeners[0]).toEqual(listeners[1]);
  });

  it('keeps little in memory for a reader whose earlier answer is still being written', async () => {
    let numAnswers = 0;
    let numKept = 0;
    answer = async (sse) => {
      numAnswers += 1;
      if (numAnswers === 1) {
        while (numKept === 0) await setImmediate();
      } else {
        let frames = 1;
        while (sse.write([FRAME]) && frames < 1000) frames += 1;
        numKept = frames;
      }
      sse.end([LAST]);
    };
    await bytesOf('/stream', '1.1', 2);
    expect(numKept).toBeLessThan(100);
  });

  it('lets a reader take its time again once it has caught up', async () => {
    answer = async (sse) => {
      while (sse.write([FRAME]));
      await sse.drained();
      // Longer than a reader may take nothing.
      await sleep(1500);
      sse.end([LAST]);
    };
    expect(eventsOf(await textOf(await open())).at(-1)).toBe('[DONE]');
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
