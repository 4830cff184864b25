import { connect } from 'node:net';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { clientOf, errorOf, MODEL, startTestServer, type TestServer } from './test-server.ts';

const KEYS = ['first-key', 'second-key'];

let svc: TestServer;
beforeAll(async () => {
  svc = await startTestServer({ server: { apiKeys: KEYS } });
});
afterAll(() => svc.close());

function models(headers: Readonly<Record<string, string>>): Promise<Response> {
  return fetch(`${svc.url}/v1/models`, { headers });
}

/** The status line of a request whose target is written as it is. */
function rawStatus(method: string, target: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    const socket = connect(svc.server.port, '127.0.0.1', () => {
      socket.write(`${method} ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`);
    });
    socket.on('data', (chunk) => {
      text += chunk;
    });
    socket.on('close', () => resolve(text.split(' ')[1] ?? ''));
    socket.on('error', reject);
  });
}

describe('API keys', () => {
  it('open the server to any of them', async () => {
    for (const key of KEYS) {
      const { data } = await clientOf(svc.url, key).models.list();
      expect(data.map(({ id }) => id)).toEqual([MODEL, 'org/alias']);
    }
  });

  it.each([
    ['bearer first-key', 200],
    ['BEARER first-key', 200],
    ['Bearer  first-key', 200],
    ['Bearer first-key ', 200],
    ['Bearer first-ke', 401],
    ['Bearer first-key2', 401],
    ['Bearer FIRST-KEY', 401],
    ['Bearer first-key second-key', 401],
    ['Bearer', 401],
    ['Bearer ', 401],
    ['first-key', 401],
    ['Basic first-key', 401],
    ['', 401],
  ])('%j is answered %i', async (authorization, status) => {
    expect((await models({ authorization })).status).toBe(status);
  });

  it('are asked for in the standard shape', async () => {
    const response = await models({});
    expect(response.headers.get('www-authenticate')).toBe('Bearer');
    expect(await errorOf(response)).toMatchObject({
      status: 401,
      type: 'AuthenticationError',
      message: expect.stringContaining('Authorization: Bearer <key>'),
    });
    expect((await errorOf(await models({ authorization: 'Bearer x' }))).message).toContain(
      'none of the keys',
    );
  });

  it('make the official client raise its AuthenticationError with our words', async () => {
    const client = clientOf(svc.url, 'wrong');
    const asked = client.completions.create({ model: MODEL, prompt: 'a' });
    await expect(asked).rejects.toBeInstanceOf(OpenAI.AuthenticationError);
    await expect(asked).rejects.toThrow('401 The API key is none of the keys of this server');
  });

  it('are asked for before a body is looked at, and whether the path exists or not', async () => {
    expect((await svc.post('/v1/completions', 'no JSON')).status).toBe(401);
    expect((await svc.post('/v1/completions', 'a'.repeat(10 * 1024 * 1024))).status).toBe(401);
    expect((await fetch(`${svc.url}/v1/nowhere`)).status).toBe(401);
  });

  it('are asked for however the path is written', async () => {
    for (const target of [
      '/v1/models',
      '/%76%31/models',
      '/v1%2fmodels',
      '//v1/models',
      '/./v1/models',
      '/v1/../v1/models',
      'http://a/v1/models',
      '/v1/models?a=b',
      '/v1/models;a',
    ]) {
      expect({ target, status: await rawStatus('GET', target) }).not.toEqual({ target, status: '200' });
    }
  });

  it('are not asked for by preflights and by what machines ask', async () => {
    expect(await rawStatus('OPTIONS', '/v1/models')).toBe('204');
    for (const path of ['/health', '/ping', '/version', '/load']) {
      expect((await fetch(`${svc.url}${path}`)).status).toBe(200);
    }
    expect((await fetch(`${svc.url}/ping`, { method: 'POST' })).status).toBe(200);
  });
});
