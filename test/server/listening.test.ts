// What a server does with connections and paths before any route: HTTPS, the root path, and what it logs of requests.

import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { pino } from 'pino';
import { Agent, fetch } from 'undici';
import { describe, expect, it } from 'vitest';
import type { TlsConfig } from '../../src/config/serve-config.ts';
import { ConfigError } from '../../src/errors.ts';
import { readTls } from '../../src/http/tls.ts';
import { Server } from '../../src/server/server.ts';
import type { ServerOptions } from '../../src/server/server-context.ts';
import { closedAfterwards } from '../helpers/closed-afterwards.ts';
import { needsIpv6 } from '../helpers/needs.ts';

const file = (name: string) => fileURLToPath(new URL(`../fixtures/tls/${name}`, import.meta.url));
const pem = (name: string) => readFileSync(file(name), 'utf8');
const TLS: TlsConfig = {
  certFile: file('server.pem'),
  keyFile: file('server.key'),
  caFile: null,
  needsClientCert: false,
};
const FOR_CLIENTS: TlsConfig = { ...TLS, caFile: file('ca.pem'), needsClientCert: true };

const opened = closedAfterwards();

/** No engine: every route of its own answers 503. */
async function listen(options: Partial<ServerOptions> = {}): Promise<Server> {
  return opened(await Server.listen({ host: '127.0.0.1', port: 0, version: '9.9.9', ...options }));
}

describe('a server with --ssl-certfile', () => {
  const client = (identity: { cert?: string; key?: string } = {}) => {
    return opened(new Agent({ connect: { ca: pem('ca.pem'), ...identity } }));
  };

  it('answers over HTTPS, and nothing over HTTP', async () => {
    const server = await listen({ tls: await readTls(TLS) });
    expect(server.url).toMatch(/^https:/);
    const response = await fetch(`${server.url}/health`, { dispatcher: client() });
    expect(response.status).toBe(503);
    await expect(fetch(`${server.url.replace('https:', 'http:')}/health`)).rejects.toThrow();
  });

  it('with --ssl-cert-reqs 2 answers only clients with a certificate of the authority', async () => {
    const { url } = await listen({ tls: await readTls(FOR_CLIENTS) });
    const known = client({ cert: pem('client.pem'), key: pem('client.key') });
    expect((await fetch(`${url}/health`, { dispatcher: known })).status).toBe(503);
    await expect(fetch(`${url}/health`, { dispatcher: client() })).rejects.toThrow();
  });

  it.each<[string, Partial<TlsConfig>, RegExp]>([
    [
      'a file that is not there',
      { keyFile: '/no/such' },
      /^--ssl-keyfile \/no\/such cannot be read: .*ENOENT/,
    ],
    ['a file that is no PEM', { certFile: file('../tiny-model.ts') }, /^--ssl-certfile .* is no PEM file/],
    [
      'a certificate without a key',
      { keyFile: TLS.certFile },
      /^--ssl-certfile \S*server\.pem holds no private key: give --ssl-keyfile the file with that/,
    ],
    [
      'a key that is a certificate',
      { keyFile: file('client.pem') },
      /^--ssl-keyfile \S*client\.pem holds no private key: give --ssl-keyfile the file with that/,
    ],
    [
      'a key of another certificate',
      { keyFile: file('client.key') },
      /^--ssl-certfile: .*server\.pem, .*client\.key cannot be used together/,
    ],
  ])('refuses %s by its option', async (_, wrong, message) => {
    const refusal = readTls({ ...TLS, ...wrong });
    await expect(refusal).rejects.toThrow(ConfigError);
    await expect(refusal).rejects.toThrow(message);
  });
});

it('a server with --root-path answers with and without that path in front, and guards both alike', async () => {
  const { url } = await listen({ rootPath: '/api', apiKeys: ['key'] });
  const status = async (path: string) => (await fetch(url + path)).status;
  expect(await Promise.all(['/api/health', '/health'].map(status))).toEqual([503, 503]);
  expect(await Promise.all(['/api/v1/models', '/v1/models'].map(status))).toEqual([401, 401]);
  expect(await status('/apihealth')).not.toBe(503);
});

describe('a server on localhost', needsIpv6, () => {
  const BOTH = ['127.0.0.1', '[::1]'];
  const statusAt = async (host: string, { port }: Server) =>
    (await fetch(`http://${host}:${port}/health`)).status;

  it('is at both loopback addresses until it is closed', async () => {
    const server = await listen({ host: 'localhost' });
    expect(server.url).toBe(`http://localhost:${server.port}`);
    expect(await Promise.all(BOTH.map((host) => statusAt(host, server)))).toEqual([503, 503]);
    const { port } = server;
    await server.close();
    for (const host of BOTH) await expect(fetch(`http://${host}:${port}/health`)).rejects.toThrow();
  });

  it('answers over HTTPS at both', async () => {
    const { port } = await listen({ host: 'localhost', tls: await readTls(TLS) });
    const agent = new Agent({ connect: { ca: pem('ca.pem'), servername: 'localhost' } });
    opened(agent);
    const ask = (host: string) => fetch(`https://${host}:${port}/health`, { dispatcher: agent });
    expect((await Promise.all(BOTH.map(ask))).map(({ status }) => status)).toEqual([503, 503]);
  });

  it('does not start where another program has its port at one of them', async () => {
    const other = createServer().listen(0, '::1');
    await once(other, 'listening');
    opened({ close: async () => void other.close() });
    const address = other.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    const starting = listen({ host: 'localhost', port });
    await expect(starting).rejects.toThrow(`port ${port} is already in use on localhost`);
  });
});

describe('the log of requests', () => {
  const logged = async (options: Partial<ServerOptions>, ask: (url: string) => Promise<unknown>) => {
    const lines: string[] = [];
    const logger = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) });
    const server = await listen({ logger, ...options });
    await ask(server.url);
    await server.close();
    return lines.join('');
  };

  it('says why a request was refused, at bounded length', async () => {
    const text = await logged({}, (url) => fetch(`${url}/${'x'.repeat(5000)}`));
    const line = /\{[^\n]*"msg":"request refused"\}/.exec(text)?.[0] ?? '{}';
    expect(JSON.parse(line)).toMatchObject({
      status: 404,
      reason: expect.stringMatching(/^There is nothing at \/xxx/),
    });
    expect(line.length).toBeLessThan(1000);
  });

  it('says why bytes were refused that are no request', async () => {
    const text = await logged({}, async (url) => {
      const socket = connect(Number(new URL(url).port), '127.0.0.1').resume();
      socket.write('nonsense\r\n\r\n');
      await once(socket, 'close');
    });
    expect(text).toMatch(/"status":400,"reason":"This is not a valid HTTP request","msg":"request refused"/);
  });

  it('has a line a request, and with --disable-uvicorn-access-log only what was refused', async () => {
    const ask = (url: string) => fetch(`${url}/nothing`);
    expect(await logged({}, ask)).toMatch(/"url":"\/nothing","status":404.*"msg":"request"/);
    const quiet = await logged({ logsAccess: false }, ask);
    expect(quiet).not.toMatch(/"msg":"request"/);
    expect(quiet).toMatch(/"msg":"request refused"/);
  });

  it('does not call a server ready whose model is being loaded', async () => {
    const text = await logged({}, async () => {});
    expect(text).toMatch(/starting on http:\/\/127\.0\.0\.1:\d+: 503 until the model is there/);
    expect(text).not.toMatch(/listening/i);
  });
});
