import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { z } from 'zod';
import type { EndedSample } from '../../src/engine/inference-engine.ts';
import { Tracing } from '../../src/observability/tracing.ts';
import { RequestSpans } from '../../src/server/request-spans.ts';
import { until } from '../helpers/until.ts';
import { MODEL, startTestServer, type TestServer } from './test-server.ts';

const spanSchema = z.object({
  name: z.string(),
  startTimeUnixNano: z.coerce.number(),
  endTimeUnixNano: z.coerce.number(),
  status: z.object({ message: z.string().optional() }),
  attributes: z.array(
    z.object({
      key: z.string(),
      value: z
        .record(z.string(), z.union([z.string(), z.number()]))
        .transform((one) => Object.values(one)[0]),
    }),
  ),
});
/** Of what a collector gets. */
const bodySchema = z.object({
  resourceSpans: z.array(z.object({ scopeSpans: z.array(z.object({ spans: z.array(spanSchema) })) })),
});
const ENDLESS = { model: MODEL, prompt: 'Hello', max_tokens: 15_000, ignore_eos: true };

let spans: z.output<typeof spanSchema>[] = [];
let collector: Server;
let tracing: Tracing;
let svc: TestServer | null = null;

beforeEach(async () => {
  spans = [];
  collector = createServer(async (request, response) => {
    const { resourceSpans } = bodySchema.parse(JSON.parse(await text(request)));
    spans.push(...resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans)));
    response.setHeader('content-type', 'application/json').end('{}');
  });
  await new Promise<void>((resolve) => collector.listen(0, '127.0.0.1', resolve));
  const endpoint = `http://127.0.0.1:${(collector.address() as AddressInfo).port}`;
  tracing = await Tracing.start({ endpoint, serviceName: 'svc', version: '9.9.9' });
});
afterEach(async () => {
  await svc?.close();
  svc = null;
  collector.close();
});

async function start(limits: { readonly requestTimeoutMs?: number } = {}): Promise<TestServer> {
  svc = await startTestServer({
    model: { config: { max_position_embeddings: 16_000 } },
    server: { tracing, ...limits },
  });
  return svc;
}

/** What the spans of requests say of how they failed. */
function failures(): (string | undefined)[] {
  return spans.filter(({ name }) => name === 'llm_request').map(({ status }) => status.message);
}

it.each([false, true])('the span of a request that fails says why (stream: %s)', async (stream) => {
  const svc = await start({ requestTimeoutMs: 400 });
  const answer = await svc.post('/v1/completions', { ...ENDLESS, stream });
  expect(await answer.text()).toContain('--request-timeout');
  await tracing.stop();
  expect(failures()).toEqual([expect.stringContaining('--request-timeout')]);
});

it.each([false, true])('so does that of a client that leaves (stream: %s)', async (stream) => {
  const svc = await start();
  const controller = new AbortController();
  const options = { signal: controller.signal };
  const asked = svc.client.completions.create({ ...ENDLESS, stream }, options);
  asked.catch(() => {});
  await until(() => svc.server.numInFlight === 1);
  controller.abort();
  await until(() => svc.server.numInFlight === 0);
  await tracing.stop();
  expect(failures()).toEqual(['the client has closed the connection']);
});

it('that of a request that is answered says nothing', async () => {
  const svc = await start();
  expect((await svc.post('/v1/completions', { ...ENDLESS, max_tokens: 2 })).status).toBe(200);
  await tracing.stop();
  expect(failures()).toEqual([undefined]);
});

const SAMPLE: EndedSample = {
  arrivedAt: 100,
  reason: 'stop',
  promptTokens: 7,
  prefillTokens: 7,
  generationTokens: 3,
  maxTokens: 9,
  endToEndSeconds: 10,
  queueSeconds: 4,
  transferSeconds: 3,
  prefillSeconds: 2,
  decodeSeconds: 4,
  inferenceSeconds: 6,
};

async function recorded(samples: readonly EndedSample[]) {
  const request = new RequestSpans(tracing.request('llm_request', {}), 'one-id');
  for (const sample of samples) request.sampleEnded(sample);
  request.end(null);
  await tracing.stop();
  const told = spans.map(({ name, startTimeUnixNano, endTimeUnixNano, attributes }) => ({
    name,
    milliseconds: [startTimeUnixNano, endTimeUnixNano].map((at) =>
      Math.round(at / 1e6 - performance.timeOrigin),
    ),
    fields: Object.fromEntries(attributes.map(({ key, value }) => [key, value])),
  }));
  const isPhase = ({ name }: (typeof told)[0]): boolean => name !== 'llm_request';
  return { phases: told.filter(isPhase), fields: told.find((one) => !isPhase(one))?.fields };
}

it('the phases of a sample are one behind the other, and the span of its request has what it asked', async () => {
  const { phases, fields } = await recorded([SAMPLE]);
  const ofFirst = { 'svc.sample': 0 };
  expect(phases).toEqual([
    { name: 'queue', milliseconds: [100, 1100], fields: ofFirst },
    { name: 'transfer', milliseconds: [1100, 4100], fields: ofFirst },
    { name: 'prefill', milliseconds: [4100, 6100], fields: ofFirst },
    { name: 'decode', milliseconds: [6100, 10_100], fields: ofFirst },
  ]);
  expect(fields).toEqual({
    'gen_ai.request.id': 'one-id',
    'gen_ai.request.n': 1,
    'gen_ai.request.max_tokens': 9,
    'gen_ai.usage.prompt_tokens': 7,
    'gen_ai.usage.completion_tokens': 3,
    'gen_ai.latency.time_in_queue': 4,
    'gen_ai.latency.time_to_first_token': 6,
  });
});

it('a phase that a sample did not have has no span, and of many samples the last have none', async () => {
  const local = { ...SAMPLE, transferSeconds: null, decodeSeconds: 0 };
  const dropped = { ...SAMPLE, queueSeconds: null, transferSeconds: null, generationTokens: 0 };
  const { phases, fields } = await recorded([dropped, ...new Array(20).fill(local)]);
  expect(phases.map(({ name }) => name)).toEqual(new Array(15).fill(['queue', 'prefill']).flat());
  expect(phases.map(({ fields: { 'svc.sample': sample } }) => sample)).toEqual(
    Array.from({ length: 30 }, (_, index) => 1 + Math.floor(index / 2)),
  );
  expect(fields).toMatchObject({
    'gen_ai.request.n': 21,
    'gen_ai.usage.completion_tokens': 60,
    'gen_ai.latency.time_in_queue': 0,
  });
});
