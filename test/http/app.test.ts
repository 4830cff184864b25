// What an application does below all routes: ids of requests, paths, bodies, refusals, and what its log says of them.

import { once } from 'node:events';
import { connect } from 'node:net';
import type { Worker } from 'node:worker_threads';
import type { FastifyInstance } from 'fastify';
import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { NotReadyError } from '../../src/errors.ts';
import { createHttpApp, type HttpAppOptions } from '../../src/http/app.ts';
import { MAX_BODY_AT_ONCE } from '../../src/http/json-parser.ts';
import { portOf } from '../../src/http/listen.ts';
import { closedAfterwards } from '../helpers/closed-afterwards.ts';
import { RawClient } from '../helpers/raw-client.ts';
import { until } from '../helpers/until.ts';

const opened = closedAfterwards();
const JSON_TYPE = { 'content-type': 'application/json' };

/** Requests for what is not answered while their client is there. */
let numWaiting = 0;

async function start(options: HttpAppOptions = {}): Promise<FastifyInstance> {
  const app = createHttpApp(options);
  app.post('/echo', async ({ body }) => ({ body: body ?? null }));
  app.get('/items/:id', async () => ({}));
  app.get('/files/*', async () => ({}));
  app.get('/health', async () => ({}));
  numWaiting = 0;
  app.get('/never', () => {
    numWaiting += 1;
    return new Promise(() => {});
  });
  app.get('/too-late', async ({ raw }) => {
    numWaiting += 1;
    await new Promise((resolve) => raw.socket.once('error', resolve));
    return {};
  });
  app.get('/late-fault', async ({ raw }) => {
    numWaiting += 1;
    await new Promise((resolve) => raw.socket.once('close', resolve));
    throw new TypeError('secret is not a function');
  });
  app.get('/early', async () => {
    throw new NotReadyError('not yet', { retryAfter: 1 });
  });
  app.get('/fault', async () => {
    throw new TypeError('secret is not a function');
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  opened({
    close: () => {
      app.server.closeAllConnections();
      return app.close();
    },
  });
  return app;
}

function numConnections(app: FastifyInstance): Promise<number> {
  return new Promise((resolve) => app.server.getConnections((_, count) => resolve(count)));
}

describe('the id of a request', () => {
  it.each(['a', '!~', 'x'.repeat(256)])('is the one that it brings: %s', async (id) => {
    const { listeningOrigin } = await start();
    const { headers } = await fetch(`${listeningOrigin}/health`, { headers: { 'x-request-id': id } });
    expect(headers.get('x-request-id')).toBe(id);
  });

  it.each(['', 'a b', 'é', 'x'.repeat(257)])('is another one where that is no use: "%s"', async (id) => {
    const { listeningOrigin } = await start();
    const { headers } = await fetch(`${listeningOrigin}/health`, { headers: { 'x-request-id': id } });
    expect(headers.get('x-request-id')).toMatch(/^[0-9a-f]{32}$/);
  });
});

describe('a path', () => {
  it.each([
    ['POST', '/items/1', 'GET or HEAD'],
    ['POST', '/items/1?a=b', 'GET or HEAD'],
    ['DELETE', '/files/a/b', 'GET or HEAD'],
    ['GET', '/echo', 'POST'],
  ])('that takes no %s (%s) says what it takes', async (method, path, methods) => {
    const { listeningOrigin } = await start();
    const answer = await fetch(listeningOrigin + path, { method });
    expect([answer.status, answer.headers.get('allow')]).toEqual([405, methods.replace(' or ', ', ')]);
    expect(await answer.json()).toMatchObject({
      error: { message: `${path.split('?')[0]} takes ${methods}, not ${method}` },
    });
  });

  it('may name one thing by 512 characters, and is wrong with more', async () => {
    const { listeningOrigin } = await start();
    const answers = [512, 513].map((length) => fetch(`${listeningOrigin}/items/${'x'.repeat(length)}`));
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 400]);
  });

  it('that cannot be read is refused in the shape of all errors', async () => {
    const { listeningOrigin } = await start();
    const answer = await fetch(`${listeningOrigin}/items/%zz`);
    const message = 'The path of the request is no valid URL';
    expect(await answer.json()).toEqual({ error: { message, type: 'Bad Request', param: null, code: 400 } });
  });

  it.each(['/items', '/items/', '/items/1/2', '/files', '/echo/', '/echo/1', '/'])(
    'that is none (%s) is answered with those that there are',
    async (path) => {
      const { listeningOrigin } = await start();
      const answer = await fetch(listeningOrigin + path, { method: 'PUT' });
      expect(answer.status).toBe(404);
      const routes = '/echo, /items/:id, /files/*, /health, /never, /too-late, /late-fault, /early, /fault';
      expect(await answer.json()).toMatchObject({
        error: { message: `There is nothing at ${path}; this server has ${routes}` },
      });
    },
  );
});

describe('a body', () => {
  it.each([
    ['is none where only its type is named', '', JSON_TYPE, null],
    ['may say that it is not encoded', '{"a":1}', { ...JSON_TYPE, 'content-encoding': 'identity' }, { a: 1 }],
  ])('%s', async (_, body, headers, read) => {
    const { listeningOrigin } = await start();
    const answer = await fetch(`${listeningOrigin}/echo`, { method: 'POST', headers, body });
    expect(await answer.json()).toEqual({ body: read });
  });

  it('that is large is read by a thread, which ends with the application', async () => {
    const created = once(process, 'worker');
    const app = await start();
    const text = 'x'.repeat(MAX_BODY_AT_ONCE);
    const body = JSON.stringify({ text });
    const answer = await fetch(`${app.listeningOrigin}/echo`, { method: 'POST', headers: JSON_TYPE, body });
    expect(await answer.json()).toEqual({ body: { text } });
    const [worker]: Worker[] = await created;
    const ended = once(worker!, 'exit');
    await app.close();
    await ended;
  });
});

describe('a refusal', () => {
  const refusedHead = (...more: string[]): string =>
    ['POST /echo HTTP/1.1', 'Host: a', 'Expect: é', ...more, '', ''].join('\r\n');

  it.each([
    ['Content-Length: 5', '12345'],
    ['Transfer-Encoding: chunked', '5\r\n12345\r\n0\r\n\r\n'],
  ])(
    'comes whole, with its length, before the body that it refuses, and the connection lasts as long (%s)',
    async (header, body) => {
      const app = await start();
      const client = new RawClient(portOf(app), refusedHead('Connection: close', header));
      await until(() => client.received.endsWith('}'));
      expect(client.answer.head).toContain('HTTP/1.1 417');
      expect(client.answer.head).toMatch(/connection: close/i);
      expect(client.answer.head).toContain(`content-length: ${Buffer.byteLength(client.answer.body)}`);
      expect(JSON.parse(client.answer.body)).toMatchObject({ error: { code: 417 } });
      expect(client.isClosed).toBe(false);
      client.socket.write(body);
      await until(() => client.isClosed);
    },
  );

  it('of a whole request ends its connection at once, where that is to end', async () => {
    const app = await start();
    const head = `Connection: close\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n`;
    const client = new RawClient(portOf(app), `POST /echo HTTP/1.1\r\nHost: a\r\n${head}{`);
    // Far less than the time that the rest of a request would have.
    await until(() => client.isClosed, 15_000);
    expect(client.answer.status).toBe(400);
  });

  it.each([
    ['what is not met', refusedHead('Content-Length: 5')],
    [
      'a body that is too large',
      refusedHead('Content-Length: 5').replace('Expect: é', 'Content-Type: application/json'),
    ],
  ])('of %s leaves a connection that is to last to the next request', async (_, head) => {
    const app = await start({ bodyLimit: 4 });
    const client = new RawClient(portOf(app), head);
    await until(() => client.received.endsWith('}'));
    expect(client.answer.status).toBeGreaterThanOrEqual(413);
    client.socket.write('12345GET /items/1 HTTP/1.1\r\nHost: a\r\n\r\n');
    await until(() => client.received.includes('HTTP/1.1 200'));
    client.leave();
  });

  it('of what is no request ends a connection that its client would keep', async () => {
    const app = await start();
    const socket = connect({ port: portOf(app), host: '127.0.0.1', allowHalfOpen: true });
    opened({ close: () => socket.destroy() });
    socket.on('error', () => {}).write('NONSENSE\r\n\r\n');
    const [answer] = await once(socket, 'data');
    expect(String(answer)).toMatch(/^HTTP\/1\.1 400 /);
    await expect.poll(() => numConnections(app)).toBe(0);
  });
});

describe('the log', () => {
  type Line = Readonly<Record<string, unknown>>;

  async function startLogged(options: HttpAppOptions = {}) {
    const lines: Line[] = [];
    const logger = pino({ level: 'info' }, { write: (line: string) => void lines.push(JSON.parse(line)) });
    const app = await start({ logger, ...options });
    // It says where it listens.
    lines.length = 0;
    return { app, lines };
  }

  it('has one line of a request, with a URL of bounded length', async () => {
    const { app, lines } = await startLogged();
    const path = `/items/1?${'x'.repeat(5000)}`;
    await fetch(app.listeningOrigin + path);
    await until(() => lines.length > 0);
    expect(lines).toEqual([
      expect.objectContaining({
        msg: 'request',
        method: 'GET',
        url: `${path.slice(0, 256)}…`,
        status: 200,
        milliseconds: expect.toSatisfy(Number.isInteger),
        client: '127.0.0.1',
      }),
    ]);
  });

  it('says why a request was refused, once', async () => {
    const { app, lines } = await startLogged();
    await fetch(`${app.listeningOrigin}/items`);
    await until(() => lines.length === 2);
    const reason = expect.stringContaining('There is nothing at /items');
    expect(lines).toMatchObject([{ msg: 'request refused', status: 404, reason }, { msg: 'request' }]);
  });

  it('has none of what machines ask', async () => {
    const { app, lines } = await startLogged();
    await fetch(`${app.listeningOrigin}/health`);
    await fetch(`${app.listeningOrigin}/items/1`);
    await until(() => lines.length > 0);
    expect(lines.map(({ url }) => url)).toEqual(['/items/1']);
  });

  it.each([
    ['there is no answer yet', '/never', true],
    ['there is no answer yet, and of no other request', '/never', false],
    ['the answer is written in vain', '/too-late', true],
  ])('tells of a client that leaves while %s', async (_, url, logsAccess) => {
    const { app, lines } = await startLogged({ logsAccess });
    const client = new RawClient(portOf(app), `GET ${url} HTTP/1.1\r\nHost: a\r\n\r\n`);
    await until(() => numWaiting === 1);
    client.leave();
    await until(() => lines.length > 0);
    expect(lines).toMatchObject([{ msg: 'client left before the answer was complete', url }]);
  });

  it('has a fault of the server as one, though nobody waits for the answer any more', async () => {
    const { app, lines } = await startLogged();
    const client = new RawClient(portOf(app), 'GET /late-fault HTTP/1.1\r\nHost: a\r\n\r\n');
    await until(() => numWaiting === 1);
    client.leave();
    await until(() => lines.length === 2);
    expect(lines.map(({ msg }) => msg).sort()).toEqual([
      'client left before the answer was complete',
      'request failed',
    ]);
  });

  it('calls a fault of the server an error, and neither an error nor a refusal what is only early', async () => {
    const { app, lines } = await startLogged();
    await fetch(`${app.listeningOrigin}/early`);
    await fetch(`${app.listeningOrigin}/fault`);
    await until(() => lines.length === 3);
    expect(lines).toMatchObject([
      { level: pino.levels.values.info, msg: 'request', status: 503 },
      { level: pino.levels.values.error, msg: 'request failed', err: { type: 'TypeError' } },
      { level: pino.levels.values.info, msg: 'request', status: 500 },
    ]);
  });
});
