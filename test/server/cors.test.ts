// What a browser asks and reads when a page of another origin calls: server and proxy answer alike.

import { request } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CorsConfig } from '../../src/config/cors-options.ts';
import { corsConfig } from '../../src/config/cors-options.ts';
import { mergeOptions, type OptionSource, serveConfig } from '../../src/config/merge.ts';
import type { OptionKey } from '../../src/config/options.ts';
import { proxyConfig } from '../../src/config/proxy-options.ts';
import { ConfigError } from '../../src/errors.ts';
import { ProxyServer } from '../../src/proxy/proxy-server.ts';
import { Server } from '../../src/server/server.ts';
import { FakeInstance } from '../helpers/fake-instance.ts';
import { until } from '../helpers/until.ts';
import { startTestServer, type TestServer } from './test-server.ts';

const PAGE = 'https://page.example';
const OTHER = 'https://other.example';
const OPEN: CorsConfig = { origins: ['*'], methods: ['*'], headers: ['*'], allowsCredentials: false };
const CLOSED: CorsConfig = {
  origins: [PAGE],
  methods: ['POST'],
  headers: ['Authorization'],
  allowsCredentials: true,
};
const KEY = 'key';
const BODY = { prompt: 'a', max_tokens: 3 };

/** A server or a proxy that answers completions. */
interface Target {
  readonly url: string;
  close(): Promise<void>;
}

async function serverWith(cors: CorsConfig | undefined): Promise<Target> {
  const svc: TestServer = await startTestServer({ server: { apiKeys: [KEY], cors } });
  return svc;
}

async function proxyWith(cors: CorsConfig | undefined): Promise<Target> {
  const config = { ...proxyConfig(), port: 0, discoveryPort: 0, apiKey: [KEY], ...(cors && { cors }) };
  const proxy = await ProxyServer.listen(config);
  const d = await FakeInstance.start({ type: 'D', discovery: proxy.discoveryAddress });
  await until(async () => (await fetch(`${proxy.url}/health`)).status === 200);
  return {
    url: proxy.url,
    close: async () => {
      await d.close();
      await proxy.close();
    },
  };
}

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

/** What a browser would send: fetch does not let a program name its origin. */
function call(
  url: string,
  method: string,
  headers: Readonly<Record<string, string>>,
  body = '',
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asked = request(url, { method, headers: { origin: PAGE, ...headers } }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk) => {
        text += chunk;
      });
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text }),
      );
    });
    asked.on('error', reject).end(body);
  });
}

function post(target: Target, body: object | string, headers: Readonly<Record<string, string>> = {}) {
  const own = { 'content-type': 'application/json', authorization: `Bearer ${KEY}` };
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return call(`${target.url}/v1/completions`, 'POST', { ...own, ...headers }, text);
}

const preflight = (
  target: Target,
  headers: Readonly<Record<string, string>> = {},
  path = '/v1/completions',
) =>
  call(`${target.url}${path}`, 'OPTIONS', {
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'authorization, content-type',
    ...headers,
  });

describe.each([
  ['a server', serverWith],
  ['a proxy', proxyWith],
])('%s', (_, start) => {
  describe('as it is', () => {
    let target: Target;
    beforeAll(async () => {
      target = await start(undefined);
    });
    afterAll(() => target.close());

    it('lets a page of any origin call, without a key for the preflight', async () => {
      const { status, headers } = await preflight(target);
      expect(status).toBe(204);
      expect(headers).toMatchObject({
        'access-control-allow-origin': '*',
        'access-control-allow-headers': 'authorization, content-type',
        'access-control-allow-methods': 'GET, HEAD, POST, DELETE, OPTIONS',
        'access-control-max-age': '600',
        vary: 'Access-Control-Request-Headers',
      });
      expect(headers['access-control-allow-credentials']).toBeUndefined();
    });

    it('says so on whole answers, streams, errors and refusals', async () => {
      const answers = [
        await post(target, BODY),
        await post(target, { ...BODY, stream: true }),
        await post(target, 'no JSON'),
        await post(target, BODY, { authorization: 'Bearer wrong' }),
        await call(`${target.url}/nowhere`, 'GET', { authorization: `Bearer ${KEY}` }),
        await call(`${target.url}/v1/completions`, 'GET', { authorization: `Bearer ${KEY}` }),
      ];
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 400, 401, 404, 405]);
      for (const { headers } of answers) {
        expect(headers['access-control-allow-origin']).toBe('*');
        expect(headers['access-control-allow-credentials']).toBeUndefined();
        expect(headers['access-control-expose-headers']).toBe('X-Request-Id, Retry-After');
        expect(headers['x-request-id']).toEqual(expect.any(String));
      }
      expect(answers[1]!.headers['content-type']).toContain('text/event-stream');
      expect(answers[1]!.text).toContain('[DONE]');
    });

    it('answers an OPTIONS that no browser has sent', async () => {
      const answered = await fetch(`${target.url}/v1/models`, { method: 'OPTIONS' });
      expect(answered.status).toBe(204);
    });
  });

  describe('that names who may call', () => {
    let target: Target;
    beforeAll(async () => {
      target = await start(CLOSED);
    });
    afterAll(() => target.close());

    it('lets pages of that origin call, with their credentials', async () => {
      const { headers } = await preflight(target);
      expect(headers).toMatchObject({
        'access-control-allow-origin': PAGE,
        'access-control-allow-credentials': 'true',
        'access-control-allow-methods': 'POST',
        'access-control-allow-headers': 'Authorization',
        vary: 'Origin',
      });
      const answers = [
        await post(target, BODY),
        await post(target, { ...BODY, stream: true }),
        await post(target, 'no JSON'),
        await post(target, BODY, { authorization: 'Bearer wrong' }),
      ];
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 400, 401]);
      for (const answer of answers) {
        expect(answer.headers).toMatchObject({
          'access-control-allow-origin': PAGE,
          'access-control-allow-credentials': 'true',
          vary: 'Origin',
        });
      }
    });

    it('lets no other page read anything', async () => {
      const answers = [
        await preflight(target, { origin: OTHER }),
        await post(target, BODY, { origin: OTHER }),
        await post(target, { ...BODY, stream: true }, { origin: OTHER }),
        await post(target, 'no JSON', { origin: OTHER }),
      ];
      for (const { headers } of answers) {
        expect(headers['access-control-allow-origin']).toBeUndefined();
        // A cache must not give this answer to the page that may read it, nor the other way round.
        expect(headers.vary).toBe('Origin');
      }
    });
  });

  it('that lets pages of any origin send credentials names the origin, as browsers want it', async () => {
    const target = await start({ ...OPEN, allowsCredentials: true });
    try {
      expect((await preflight(target)).headers['access-control-allow-origin']).toBe(PAGE);
      expect((await post(target, BODY, { origin: OTHER })).headers['access-control-allow-origin']).toBe(
        OTHER,
      );
    } finally {
      await target.close();
    }
  });
});

it('a server that is still loading lets a page read that', async () => {
  const server = await Server.listen({ host: '127.0.0.1', port: 0, version: '0' });
  try {
    const { status, headers } = await call(`${server.url}/v1/models`, 'GET', {});
    expect([status, headers['access-control-allow-origin']]).toEqual([503, '*']);
  } finally {
    await server.close();
  }
});

describe('the options of other origins', () => {
  const given = (key: OptionKey, value: unknown) =>
    mergeOptions(new Map([[key, { value, origin: `--${key}` }]]));

  it.each([
    [['["*"]'], ['*']],
    [['["https://a.b", "http://c:8080"]'], ['https://a.b', 'http://c:8080']],
    [
      ['https://a.b', 'http://c:8080'],
      ['https://a.b', 'http://c:8080'],
    ],
    [['*'], ['*']],
    ['["https://A.b"]', ['https://a.b']],
    [
      ['null', 'app://x'],
      ['null', 'app://x'],
    ],
  ])('take %j', (value, origins) => {
    expect(corsConfig(given('allowedOrigins', value).values).origins).toEqual(origins);
  });

  it.each([
    [['example.com']],
    [['https://a.b/']],
    [['https://a.b/path']],
    [['[1]']],
    [['[]']],
    [['["a b"]']],
    [['']],
  ])('refuse %j', (value) => {
    expect(() => given('allowedOrigins', value)).toThrow(ConfigError);
    expect(() => given('allowedOrigins', value)).toThrow(
      'origins such as https://example.com, without a path',
    );
  });

  it.each([
    ['svc serve', (source: OptionSource) => serveConfig(mergeOptions(source)).http.cors],
    ['svc proxy', (source: OptionSource) => proxyConfig(source).cors],
  ])('are those of %s', (_, corsOf) => {
    const given = (value: unknown) => ({ value, origin: 'a flag' });
    const source: OptionSource = new Map([
      ['allowedOrigins', given([PAGE])],
      ['allowedMethods', given(['POST'])],
      ['allowedHeaders', given(['Authorization'])],
      ['allowCredentials', given(true)],
    ]);
    expect(corsOf(source)).toEqual(CLOSED);
    expect(corsOf(new Map())).toEqual(OPEN);
  });

  it('take names of methods and headers', () => {
    expect(corsConfig(given('allowedMethods', ['["get"]']).values).methods).toEqual(['GET']);
    expect(corsConfig(given('allowedHeaders', ['X-A', 'X-B']).values).headers).toEqual(['X-A', 'X-B']);
    expect(() => given('allowedHeaders', ['a b'])).toThrow(ConfigError);
  });
});
