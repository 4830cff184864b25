import { once } from 'node:events';
import { Agent, get, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { afterEach, describe, expect, it } from 'vitest';
import { createHttpApp } from '../../src/http/app.ts';
import { portOf } from '../../src/http/listen.ts';
import { RawClient } from '../helpers/raw-client.ts';

const WRITE_TIMEOUT_MS = 300;
/** Of clients that are not to exceed it, though their machine may stall for a second. */
const LONG_WRITE_TIMEOUT_MS = 2000;
/** More than the buffers of both ends hold. */
const LARGE = 'x'.repeat(32 * 1024 * 1024);

let app: FastifyInstance;
const agent = new Agent({ keepAlive: true, maxSockets: 1 });
async function start(writeTimeoutMs: number): Promise<void> {
  app = createHttpApp({ writeTimeoutMs });
  app.get('/large', async () => LARGE);
  app.get('/quick', async () => 'quick');
  app.get('/late', async () => {
    await sleep(2 * WRITE_TIMEOUT_MS);
    return 'late';
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
}
afterEach(async () => {
  app.server.closeAllConnections();
  await app.close();
});

async function ask(path: string): Promise<IncomingMessage> {
  const [response]: IncomingMessage[] = await once(
    get(`${app.listeningOrigin}${path}`, { agent }),
    'response',
  );
  return response!;
}

function numConnections(): Promise<number> {
  return new Promise((resolve) => app.server.getConnections((_, count) => resolve(count)));
}

describe('a client with an answer in one piece', () => {
  it('is cut off where it takes nothing for too long', async () => {
    await start(WRITE_TIMEOUT_MS);
    const response = await ask('/large');
    response.on('error', () => {});
    response.socket.pause();
    await expect.poll(numConnections, { timeout: 20_000 }).toBe(0);
    response.socket.destroy();
  });

  it('gets all of it where it takes a little now and then', async () => {
    await start(LONG_WRITE_TIMEOUT_MS);
    const response = await ask('/large');
    const whole = text(response);
    // All of them together last longer than one may.
    for (let pause = 0; pause < 4; pause += 1) {
      response.socket.pause();
      await sleep(0.3 * LONG_WRITE_TIMEOUT_MS);
      response.socket.resume();
      // Less would leave the window of the connection shut.
      for (let chunk = 0; chunk < 16; chunk += 1) await once(response.socket, 'data');
    }
    expect(await whole).toHaveLength(LARGE.length);
  });

  it('may wait for it, and keep the connection for the next one', async () => {
    await start(WRITE_TIMEOUT_MS);
    const first = await ask('/late');
    const { localPort } = first.socket;
    expect(await text(first)).toBe('late');
    await sleep(2 * WRITE_TIMEOUT_MS);
    const second = await ask('/late');
    expect(second.socket.localPort).toBe(localPort);
    expect(await text(second)).toBe('late');
  });

  it('may wait for it behind another one on its connection', async () => {
    await start(WRITE_TIMEOUT_MS);
    const asked = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`;
    const client = new RawClient(portOf(app), asked('/quick') + asked('/late'));
    await expect.poll(() => client.received).toMatch(/quick.*late$/s);
    client.leave();
  });
});
