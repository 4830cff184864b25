// Real instances under a real proxy: what dies, hangs up or has no room changes no byte and leaves nothing behind.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { modelFolder } from '../../src/models/model-folder.ts';
import { Cluster, type ClusterOptions, readMetrics } from '../helpers/cluster.ts';
import { needsNative } from '../helpers/needs.ts';
import { type SvcProcess, startServeProcess } from '../helpers/svc-process.ts';
import { until } from '../helpers/until.ts';
import { disconnectClients, untilNothingIsHeld } from './client-disconnects.ts';
import { answersOf, type MixedRequest, mixedRequests } from './mixed-requests.ts';

const model = await modelFolder('');
/** Everything of an aborted request is free by then: no deadline of a transfer is as short. */
const FREE_WITHIN_MS = 5000;

const JSON_BODY = { 'content-type': 'application/json' };
const GUESSING = '{"method": "ngram", "prompt_lookup_max": 3, "prompt_lookup_min": 1}';

/** A long list, since a stream has to last until an instance is killed. */
const NOTES = {
  type: 'object',
  properties: { notes: { type: 'array', items: { type: 'string', maxLength: 12 }, minItems: 100 } },
  required: ['notes'],
  additionalProperties: false,
};
const TOOL = { name: 'take_notes', description: 'Writes notes down', parameters: NOTES };
const USER = (index: number) => [{ role: 'user', content: `Tell me a story about ${index} dogs.` }];

/** Of every protocol, with calls and with answers in JSON; `index` makes them differ from others. */
function streamsOfEachKind(index: number): MixedRequest[] {
  const sampling = { temperature: 0.9, seed: index, ignore_eos: true, stream: true };
  const chat = { ...sampling, messages: USER(index), max_tokens: 160 };
  const response = { ...sampling, input: USER(index), max_output_tokens: 160 };
  const json_schema = { name: 'notes', schema: NOTES, strict: true };
  return [
    {
      path: '/v1/completions',
      body: { ...sampling, prompt: `There was a dog number ${index}`, max_tokens: 160, n: 2, logprobs: 2 },
    },
    { path: '/v1/chat/completions', body: { ...chat, logprobs: true, top_logprobs: 2 } },
    {
      path: '/v1/chat/completions',
      body: { ...chat, tools: [{ type: 'function', function: TOOL }], tool_choice: 'required' },
    },
    {
      path: '/v1/chat/completions',
      body: { ...chat, response_format: { type: 'json_schema', json_schema } },
    },
    {
      path: '/v1/responses',
      body: { ...response, tools: [{ type: 'function', ...TOOL }], tool_choice: 'required' },
    },
    {
      path: '/v1/responses',
      body: { ...response, text: { format: { type: 'json_schema', ...json_schema } } },
    },
    {
      path: '/v1/messages',
      body: { ...chat, tools: [{ name: TOOL.name, input_schema: NOTES }], tool_choice: { type: 'any' } },
    },
    { path: '/v1/messages', body: chat },
  ];
}

function cluster(options: Partial<ClusterOptions>): Promise<Cluster> {
  return Cluster.start({
    model,
    producers: 1,
    consumers: 1,
    proxyArgs: ['--prefill-threshold', '0'],
    ...options,
  });
}

it('the document of the API behind a proxy names only routes that the proxy has', needsNative, async () => {
  const document = z.object({ paths: z.record(z.string(), z.record(z.string(), z.unknown())) });
  const running = await cluster({ producers: 0 });
  try {
    const { paths } = document.parse(await (await fetch(`${running.url}/openapi.json`)).json());
    expect(Object.keys(paths)).toEqual(
      expect.arrayContaining(['/v1/chat/completions', '/v1/messages', '/tokenize', '/v1/models/{name}']),
    );
    for (const [path, operations] of Object.entries(paths)) {
      for (const method of Object.keys(operations)) {
        const request = { method, ...(method === 'post' && { body: '{}', headers: JSON_BODY }) };
        const answer = await fetch(running.url + path, request);
        expect(await answer.text(), `${method} ${path}`).not.toContain('"type":"Not Found"');
        expect(answer.status).not.toBe(405);
      }
    }
  } finally {
    await running.stop();
  }
});

describe('disaggregated serving', needsNative, () => {
  let plain: SvcProcess;
  beforeAll(async () => {
    plain = await startServeProcess([model, '--num-threads', '1']);
  });
  afterAll(() => plain?.stop());

  describe('when decode instances are killed in the middle of streams', () => {
    const requests = [0, 1].flatMap(streamsOfEachKind);

    it('the clients get the bytes of an uninterrupted stream', async () => {
      const expected = await answersOf(plain.url, requests, 8);
      // Each instance guesses other tokens right, as its load allows.
      const group = await cluster({ consumers: 3, serveArgs: ['--speculative-config', GUESSING] });
      try {
        const answers = answersOf(group.url, requests, requests.length);
        const metric = async (url: string, name: string) => (await readMetrics(url)).get(`svc:${name}`) ?? 0;
        const [first, second] = group.consumers;
        await until(async () => (await metric(first!.url, 'generation_tokens_total')) > 50);
        first!.child.kill('SIGKILL');
        await until(async () => (await metric(group.url, 'proxy_resumes_total')) > 0);
        second!.child.kill('SIGKILL');
        expect(await answers).toEqual(expected);
        expect(await metric(group.url, 'proxy_resumes_total')).toBeGreaterThan(1);
        expect(await metric(group.consumers[2]!.url, 'spec_decode_num_drafts_total')).toBeGreaterThan(0);
      } finally {
        await group.stop();
      }
    }, 120_000);
  });

  describe('when clients hang up', () => {
    let group: Cluster;
    beforeAll(async () => {
      group = await cluster({});
    });
    afterAll(() => group?.stop());

    it('frees everything of 500 of them, and waits for no deadline', async () => {
      expect(await disconnectClients(group, 500)).toBeLessThan(FREE_WITHIN_MS);
    });
  });

  describe('when one D has no buffer for a request, and another one neither buffer nor pool', () => {
    const requests = mixedRequests(24, 3);
    let expected: unknown[];
    beforeAll(async () => {
      expected = await answersOf(plain.url, requests, 8);
    });

    it.each(['PUT_ASYNC', 'PUT', 'GET'] as const)('answers rightly with %s', async (sendType) => {
      const none = { kv_buffer_size: 10 };
      const group = await cluster({
        sendType,
        consumers: [
          { ...none, extra: { mem_pool_size_gb: 0.25 } },
          { ...none, extra: { mem_pool_size_gb: 0 } },
        ],
      });
      try {
        expect(await answersOf(group.url, requests, 8)).toEqual(expected);
        const [withPool, without] = await Promise.all(group.consumers.map(({ url }) => readMetrics(url)));
        expect(withPool!.get('svc:kv_transfer_via_pool_total')).toBeGreaterThan(0);
        expect(withPool!.get('svc:kv_transfer_recomputed_total')).toBe(0);
        expect(without!.get('svc:kv_transfer_via_pool_total')).toBe(0);
        expect(without!.get('svc:kv_transfer_recomputed_total')).toBeGreaterThan(0);
        for (const metrics of [withPool!, without!]) {
          expect(metrics.get('svc:kv_transfer_via_buffer_total')).toBe(0);
        }
        expect(await untilNothingIsHeld(group)).toBeLessThan(FREE_WITHIN_MS);
      } finally {
        await group.stop();
      }
    });
  });
});
