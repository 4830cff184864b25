import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { z } from 'zod';
import { Tracing } from '../../src/observability/tracing.ts';
import { until } from '../helpers/until.ts';
import { MODEL, startTestServer, type TestServer } from './test-server.ts';

/** Of what a collector gets: the spans of requests. */
const bodySchema = z.object({
  resourceSpans: z.array(
    z.object({
      scopeSpans: z.array(
        z.object({
          spans: z.array(
            z.object({ name: z.string(), status: z.object({ message: z.string().optional() }) }),
          ),
        }),
      ),
    }),
  ),
});
const ENDLESS = { model: MODEL, prompt: 'Hello', max_tokens: 15_000, ignore_eos: true };

let failures: (string | undefined)[] = [];
let collector: Server;
let tracing: Tracing;
let svc: TestServer;

beforeEach(async () => {
  failures = [];
  collector = createServer(async (request, response) => {
    const { resourceSpans } = bodySchema.parse(JSON.parse(await text(request)));
    const spans = resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans));
    failures.push(...spans.filter(({ name }) => name === 'llm_request').map(({ status }) => status.message));
    response.setHeader('content-type', 'application/json').end('{}');
  });
  await new Promise<void>((resolve) => collector.listen(0, '127.0.0.1', resolve));
  const endpoint = `http://127.0.0.1:${(collector.address() as AddressInfo).port}`;
  tracing = await Tracing.start({ endpoint, serviceName: 'svc', version: '9.9.9' });
});
afterEach(async () => {
  await svc.close();
  collector.close();
});

async function start(limits: { readonly requestTimeoutMs?: number } = {}): Promise<void> {
  svc = await startTestServer({
    model: { config: { max_position_embeddings: 16_000 } },
    server: { tracing, ...limits },
  });
}

it.each([false, true])('the span of a request that fails says why (stream: %s)', async (stream) => {
  await start({ requestTimeoutMs: 400 });
  const answer = await svc.post('/v1/completions', { ...ENDLESS, stream });
  expect(await answer.text()).toContain('--request-timeout');
  await tracing.stop();
  expect(failures).toEqual([expect.stringContaining('--request-timeout')]);
});

it.each([false, true])('so does that of a client that leaves (stream: %s)', async (stream) => {
  await start();
  const controller = new AbortController();
  const options = { signal: controller.signal };
  const asked = svc.client.completions.create({ ...ENDLESS, stream }, options);
  asked.catch(() => {});
  await until(() => svc.server.numInFlight === 1);
  controller.abort();
  await until(() => svc.server.numInFlight === 0);
  await tracing.stop();
  expect(failures).toEqual(['the client has closed the connection']);
});

it('that of a request that is answered says nothing', async () => {
  await start();
  expect((await svc.post('/v1/completions', { ...ENDLESS, max_tokens: 2 })).status).toBe(200);
  await tracing.stop();
  expect(failures).toEqual([undefined]);
});
