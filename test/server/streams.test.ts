import { request as httpRequest, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { until } from '../helpers/until.ts';
import { eventsOf, isIdle, MODEL, startTestServer, type TestServer } from './test-server.ts';

let svc: TestServer;
beforeAll(async () => {
  svc = await startTestServer({
    model: { config: { max_position_embeddings: 20_000 } },
    server: { writeTimeoutMs: 1500 },
  });
});
afterAll(() => svc.close());

let generatedBefore: number;
beforeEach(async () => {
  generatedBefore = (await svc.engine.stats()).generationTokens;
});

/** Runs for many seconds unless somebody stops it. */
const ENDLESS = { model: MODEL, prompt: 'Hello', max_tokens: 19_000, ignore_eos: true };

async function isRunning(): Promise<boolean> {
  const { running, freeBlocks, numBlocks } = await svc.engine.stats();
  return running > 0 && freeBlocks < numBlocks;
}

/** Nothing is computed, and nobody asks for more: a search has nothing in the engine between two of its steps. */
async function isAtRest(): Promise<boolean> {
  const { generationTokens } = await svc.engine.stats();
  await sleep(100);
  return (await svc.engine.stats()).generationTokens === generationTokens;
}

/** Waits for an engine without requests. @throws where `count` endless samples, all that were asked for, have come to their end. */
async function untilFreed(count: number): Promise<void> {
  await until(() => isIdle(svc.engine));
  const { generationTokens } = await svc.engine.stats();
  expect(generationTokens - generatedBefore).toBeLessThan(count * ENDLESS.max_tokens);
}

describe('a client that hangs up', () => {
  it('frees its blocks in the middle of a stream', async () => {
    const stream = await svc.client.completions.create({ ...ENDLESS, n: 4, stream: true });
    for await (const { choices } of stream) if (choices.length > 0) break;
    await untilFreed(4);
    await until(() => svc.server.numInFlight === 0);
  });

  it.each([
    ['samples', { n: 4 }],
    ['the best of several samples', { n: 2, best_of: 4 }],
    ['beams', { n: 2, use_beam_search: true, temperature: 0 }],
  ])('frees its blocks before an answer in one piece: %s', async (_, fields) => {
    const controller = new AbortController();
    const asked = svc.client.completions.create({ ...ENDLESS, ...fields }, { signal: controller.signal });
    await until(isRunning);
    controller.abort();
    await expect(asked).rejects.toThrow('aborted');
    await until(isAtRest);
    await untilFreed(2);
    await until(() => svc.server.numInFlight === 0);
  });

  it('frees the blocks of all its prompts', async () => {
    const controller = new AbortController();
    const prompt = Array.from({ length: 8 }, (_, index) => `prompt ${index}`);
    const request = { ...ENDLESS, prompt, stream: true as const };
    const stream = await svc.client.completions.create(request, { signal: controller.signal });
    await until(async () => (await svc.engine.stats()).running === 8);
    for await (const _ of stream) break;
    controller.abort();
    await untilFreed(8);
  });

  it('is noticed where it only closes its socket', async () => {
    const body = JSON.stringify({ ...ENDLESS, stream: true });
    const socket = connect(svc.server.port, '127.0.0.1');
    socket.write(
      `POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    await until(isRunning);
    socket.destroy();
    await untilFreed(1);
  });
});

describe('many clients at once', () => {
  it('32 streams each get the text that they get alone', async () => {
    const requests = Array.from({ length: 32 }, (_, index) => ({
      model: MODEL,
      prompt: `client ${index} says ${'Hello '.repeat(index % 7)}`,
      max_tokens: 24,
      temperature: index % 2,
      seed: index,
      ignore_eos: true,
    }));
    const together = await Promise.all(
      requests.map(async (request) => {
        let text = '';
        for await (const { choices } of await svc.client.completions.create({ ...request, stream: true })) {
          text += choices[0]!.text;
        }
        return text;
      }),
    );
    for (const [at, request] of requests.entries()) {
      const alone = await svc.client.completions.create(request);
      expect(together[at]).toBe(alone.choices[0]!.text);
    }
    expect(await isIdle(svc.engine)).toBe(true);
  });
});

describe('a reader that is slow', () => {
  // About 10 MB of events: more than the buffers of a socket take.
  const large = {
    model: MODEL,
    prompt: Array.from({ length: 8 }, () => 'word '.repeat(2000)),
    n: 128,
    max_tokens: 0,
    echo: true,
    stream: true,
  };

  it('is waited for and gets everything', async () => {
    const response = await openStream(large);
    response.pause();
    await until(() => response.socket.bytesRead > 0 || response.readableLength > 0);
    const events = eventsOf(await textOf(response));
    expect(events).toHaveLength(8 * 128 + 1);
    expect(events.at(-1)).toBe('[DONE]');
  });

  it('is cut off where it takes nothing before the deadline', async () => {
    const response = await openStream(large);
    response.on('error', () => {});
    response.pause();
    expect(svc.server.numInFlight).toBe(1);
    await until(() => svc.server.numInFlight === 0);
    response.resume();
    await expect(textOf(response)).rejects.toThrow();
  });
});

function openStream(body: object): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(`${svc.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
    });
    request.on('response', resolve).on('error', reject);
    request.end(JSON.stringify(body));
  });
}

async function textOf(response: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of response.setEncoding('utf8')) text += chunk;
  return text;
}
