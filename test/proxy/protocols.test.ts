// Responses and messages through the proxy, answered by real servers of one model, whose connections are cut.

import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import Anthropic from '@anthropic-ai/sdk';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FakeInstance } from '../helpers/fake-instance.ts';
import { bodyOf, errorOf, startTestServer, type TestServer } from '../server/test-server.ts';
import { closeAllAfterEach, TestProxy } from './test-proxy.ts';

closeAllAfterEach();

interface Cut {
  /** Events; null never cuts. */
  after: number | null;
  /** Every answer is cut, not only the next one. */
  isLasting: boolean;
}

/** Stands before a server, and breaks a connection where the answer on it has had so many events. */
class CuttingRelay {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** Shared with other relays: only one of them cuts. */
  readonly #cut: Cut;

  private constructor(server: Server, cut: Cut) {
    this.#server = server;
    this.#cut = cut;
  }

  static async start(port: number, cut: Cut): Promise<CuttingRelay> {
    const server = createServer();
    const relay = new CuttingRelay(server, cut);
    server.on('connection', (socket) => relay.#join(socket, port));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return relay;
  }

  get address(): string {
    const address = this.#server.address();
    return typeof address === 'object' ? `127.0.0.1:${address?.port}` : '';
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }

  #join(incoming: Socket, port: number): void {
    const outgoing = connect(port, '127.0.0.1');
    let numEvents = 0;
    incoming.on('data', (bytes) => {
      numEvents = 0;
      outgoing.write(bytes);
    });
    outgoing.on('data', (bytes) => {
      for (let at = bytes.indexOf('\n\n'); at >= 0; at = bytes.indexOf('\n\n', at + 2)) {
        numEvents += 1;
        if (numEvents !== this.#cut.after) continue;
        if (!this.#cut.isLasting) this.#cut.after = null;
        incoming.end(bytes.subarray(0, at + 2), () => outgoing.destroy());
        return;
      }
      if (incoming.writable) incoming.write(bytes);
    });
    for (const [socket, other] of [
      [incoming, outgoing],
      [outgoing, incoming],
    ] as const) {
      this.#sockets.add(socket);
      socket.on('error', () => other.destroy());
      socket.on('close', () => {
        this.#sockets.delete(socket);
        other.destroySoon();
      });
    }
  }
}

const RESPONSE = {
  input: 'tell me of the sea',
  instructions: 'be brief',
  max_output_tokens: 10,
  temperature: 1,
  seed: 9,
  stream: true,
};
const MESSAGE = {
  messages: [{ role: 'user', content: 'tell me of the sea' }],
  max_tokens: 10,
  temperature: 1,
  seed: 9,
  stream: true,
};

describe('through the proxy', () => {
  let servers: TestServer[];
  const cut: Cut = { after: null, isLasting: false };
  let relays: CuttingRelay[];
  const registrations: FakeInstance[] = [];
  beforeAll(async () => {
    // No prefix cache: usage would tell what was found in it.
    const options = { model: { seed: 3 }, engine: { enablePrefixCaching: false } };
    servers = [await startTestServer(options), await startTestServer(options)];
    relays = await Promise.all(servers.map(({ server }) => CuttingRelay.start(server.port, cut)));
  });
  afterAll(async () => {
    await Promise.all(registrations.map((instance) => instance.close()));
    for (const relay of relays) relay.close();
    await Promise.all(servers.map((server) => server.close()));
  });

  /** A proxy that knows the servers by their relays: registrations of fake instances name these. */
  async function startProxy(numServers = 2, apiKey: readonly string[] = []): Promise<TestProxy> {
    const proxy = await TestProxy.start({ config: { apiKey: [...apiKey] } });
    for (const { address } of relays.slice(0, numServers)) {
      const discovery = proxy.server.discoveryAddress;
      registrations.push(
        await FakeInstance.start({ type: 'D', discovery, about: { http_address: address, model: 'tiny' } }),
      );
      await proxy.untilState({ httpAddress: address }, 'ready');
    }
    return proxy;
  }

  async function stream(proxy: TestProxy, path: string, body: object): Promise<string> {
    const response = await proxy.post(path, body, { 'x-request-id': 'one-id' });
    const text = await response.text();
    return text.replaceAll(/"created_at":\d+/g, '"created_at":0');
  }

  it.each([
    ['/v1/responses', RESPONSE],
    ['/v1/messages', MESSAGE],
  ])('a stream of %s that is cut after any event goes on byte for byte', async (path, body) => {
    const proxy = await startProxy();
    const whole = await stream(proxy, path, body);
    const numEvents = whole.split('\n\n').length - 1;
    expect(numEvents).toBeGreaterThan(8);
    // After the last event there is nothing to go on with.
    for (let after = 1; after <= numEvents; after += 1) {
      cut.after = after;
      expect(await stream(proxy, path, body), `cut after ${after} events`).toBe(whole);
      expect(cut.after).toBeNull();
    }
    expect(await proxy.metric('resumes_total')).toBe(numEvents - 1);
  });

  it('a stream that no other instance can go on with ends with an error as its protocol has it', async () => {
    const proxy = await startProxy(1);
    const lastOf = async (path: string, body: object): Promise<string[]> => {
      const events = (await stream(proxy, path, body)).trimEnd().split('\n\n');
      return events.at(-1)?.split('\n') ?? [];
    };
    Object.assign(cut, { after: 4, isLasting: true });
    const [name, data = ''] = await lastOf('/v1/responses', RESPONSE);
    expect(name).toBe('event: error');
    const told = { type: 'error', sequence_number: 4, code: 'overloaded', param: null };
    expect(JSON.parse(data.slice('data: '.length))).toMatchObject(told);
    const [otherName, otherData = ''] = await lastOf('/v1/messages', MESSAGE);
    expect(otherName).toBe('event: error');
    expect(JSON.parse(otherData.slice('data: '.length))).toMatchObject({
      type: 'error',
      error: { type: 'overloaded_error' },
    });
    Object.assign(cut, { after: null, isLasting: false });
  });

  it('the client libraries of both protocols get their answers', async () => {
    const proxy = await startProxy(1, ['a-key']);
    const client = new Anthropic({ baseURL: proxy.url, apiKey: 'a-key', maxRetries: 0 });
    const asked = { model: 'tiny', max_tokens: 4, messages: [{ role: 'user' as const, content: 'Hello' }] };
    const message = await client.messages.create(asked);
    expect(message.usage.output_tokens).toBeGreaterThan(0);
    expect((await client.messages.stream(asked).finalMessage()).role).toBe('assistant');
    const { input_tokens } = await client.messages.countTokens({ model: 'tiny', messages: asked.messages });
    expect(input_tokens).toBe(message.usage.input_tokens);
    const response = await proxy.client.responses.create({
      model: 'tiny',
      input: 'Hello',
      max_output_tokens: 4,
    });
    expect(response.object).toBe('response');
    const counted = await proxy.client.responses.inputTokens.count({ model: 'tiny', input: 'Hello' });
    expect(counted).toEqual({ object: 'response.input_tokens', input_tokens: response.usage?.input_tokens });
    const streamed = proxy.client.responses.stream({ model: 'tiny', input: 'Hello', max_output_tokens: 4 });
    expect((await streamed.finalResponse()).usage?.input_tokens).toBe(input_tokens);
  });

  it('no responses are kept, and whoever comes back to one is told so', async () => {
    const proxy = await startProxy(1);
    const made = await bodyOf(await proxy.post('/v1/responses', { ...RESPONSE, stream: false }));
    expect(made.store).toBe(false);
    const next = await errorOf(
      await proxy.post('/v1/responses', { ...RESPONSE, previous_response_id: made.id }),
    );
    expect(next).toMatchObject({ status: 400, param: 'previous_response_id' });
    const asked = { input: 'Hello', previous_response_id: made.id };
    expect(await errorOf(await proxy.post('/v1/responses/input_tokens', asked))).toMatchObject({
      status: 400,
      param: 'previous_response_id',
    });
    const input = [{ type: 'item_reference', id: made.output[0].id }];
    const referred = await errorOf(await proxy.post('/v1/responses', { ...RESPONSE, input }));
    expect(referred).toMatchObject({
      status: 400,
      param: 'input',
      message: expect.stringContaining('store: false'),
    });
    const kept = await errorOf(await fetch(`${proxy.url}/v1/responses/${made.id}`));
    expect([kept.status, kept.message]).toEqual([
      404,
      expect.stringContaining('No responses are kept behind a proxy'),
    ]);
    const [server] = servers;
    expect((await fetch(`${server!.url}/v1/responses/${made.id}`)).status).toBe(404);
  });

  it('no client is blamed where an instance does not let the proxy in', async () => {
    const proxy = await TestProxy.start({ config: { apiKey: ['a-key'] }, instanceKey: 'wrong' });
    await proxy.join('D', { apiKey: 'right' });
    const response = await proxy.post('/v1/messages', MESSAGE, { authorization: 'Bearer a-key' });
    expect(response.status).toBe(502);
    expect(await bodyOf(response)).toMatchObject({ type: 'error', error: { type: 'api_error' } });
  });

  it('errors of the proxy itself have the shape of the protocol', async () => {
    const proxy = await startProxy(0);
    const response = await proxy.post('/v1/messages', MESSAGE);
    expect(response.status).toBe(503);
    expect(await bodyOf(response)).toMatchObject({ type: 'error', error: { type: 'overloaded_error' } });
    expect(await errorOf(await proxy.post('/v1/responses', RESPONSE))).toMatchObject({ status: 503 });
  });
});
