// Traces of a request over proxy, producer and consumer, as a collector gets them.

import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import { Cluster } from '../helpers/cluster.ts';
import { needsNative } from '../helpers/needs.ts';

const attributeSchema = z.object({
  key: z.string(),
  value: z.object({ stringValue: z.string().optional(), intValue: z.number().optional() }),
});
const spanSchema = z.object({
  traceId: z.string(),
  spanId: z.string(),
  parentSpanId: z.string().optional(),
  name: z.string(),
  startTimeUnixNano: z.string(),
  endTimeUnixNano: z.string(),
  attributes: z.array(attributeSchema),
});
const bodySchema = z.object({
  resourceSpans: z.array(
    z.object({
      resource: z.object({ attributes: z.array(attributeSchema) }),
      scopeSpans: z.array(z.object({ spans: z.array(spanSchema) })),
    }),
  ),
});
type Span = z.output<typeof spanSchema> & { readonly service: string };

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const CLIENT_SPAN = 'b7ad6b7169203331';
/** Those of the proxy, with a call to each instance; of P; of D, which computes the last token of the prompt itself. */
const NAMES = [
  ...['proxy_request', 'prefill', 'decode'],
  ...['llm_request', 'queue', 'prefill'],
  ...['llm_request', 'queue', 'transfer', 'prefill', 'decode'],
];

const spans: Span[] = [];
let collector: Server;
let cluster: Cluster;

beforeAll(async () => {
  collector = createServer(async (request, response) => {
    const body = bodySchema.parse(JSON.parse(await text(request)));
    for (const { resource, scopeSpans } of body.resourceSpans) {
      const service = resource.attributes.find(({ key }) => key === 'service.name')?.value.stringValue ?? '';
      for (const { spans: sent } of scopeSpans) spans.push(...sent.map((span) => ({ ...span, service })));
    }
    response.setHeader('content-type', 'application/json').end('{}');
  });
  await new Promise<void>((resolve) => collector.listen(0, '127.0.0.1', resolve));
  const endpoint = `http://127.0.0.1:${(collector.address() as AddressInfo).port}`;
  const args = ['--otlp-traces-endpoint', endpoint];
  cluster = await Cluster.start({
    model: 'models/svc-chat',
    producers: 1,
    consumers: 1,
    serveArgs: args,
    proxyArgs: ['--prefill-threshold', '0', ...args],
  });
});
afterAll(async () => {
  await cluster.stop();
  collector.close();
});

it(
  'a request leaves one trace over proxy, producer and consumer, below the span of the client',
  needsNative,
  async () => {
    const response = await fetch(`${cluster.proxy.url}/v1/completions`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        traceparent: `00-${TRACE}-${CLIENT_SPAN}-01`,
      },
      body: JSON.stringify({ prompt: 'Once upon a time '.repeat(12), max_tokens: 8, ignore_eos: true }),
    });
    expect(response.status).toBe(200);
    await response.text();
    const ours = (): Span[] => spans.filter(({ traceId }) => traceId === TRACE);
    // Who ends sends what is left.
    await cluster.stop();
    expect(
      ours()
        .map(({ name }) => name)
        .sort(),
    ).toEqual(NAMES.sort());

    const one = (name: string, parent: string): Span => {
      const found = ours().filter((span) => span.name === name && span.parentSpanId === parent);
      expect([name, found.length]).toEqual([name, 1]);
      return found[0] as Span;
    };
    const root = one('proxy_request', CLIENT_SPAN);
    expect(root.service).toBe('svc-proxy');
    const [toP, toD] = [one('prefill', root.spanId), one('decode', root.spanId)];
    const [p, d] = [one('llm_request', toP.spanId), one('llm_request', toD.spanId)];
    expect([p.service, d.service]).toEqual(['svc', 'svc']);
    one('prefill', p.spanId);
    const phases = ['queue', 'transfer', 'prefill', 'decode'].map((name) => one(name, d.spanId));
    for (const [i, { startTimeUnixNano }] of phases.entries()) {
      if (i > 0) expect(startTimeUnixNano >= (phases[i - 1]?.endTimeUnixNano ?? '')).toBe(true);
    }
    const tokens = d.attributes.find(({ key }) => key === 'gen_ai.usage.completion_tokens');
    expect(tokens?.value.intValue).toBe(8);
  },
);
