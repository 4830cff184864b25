// Real instances under a real proxy: what dies, hangs up or has no room changes no byte and leaves nothing behind.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { modelFolder } from '../../src/models/model-folder.ts';
import { Cluster, type ClusterOptions, readMetrics } from '../helpers/cluster.ts';
import { needsNative } from '../helpers/needs.ts';
import { startServeProcess } from '../helpers/svc-process.ts';
import { until } from '../helpers/until.ts';
import { disconnectClients, untilNothingIsHeld } from './client-disconnects.ts';
import { answersOf, type MixedRequest, mixedRequests } from './mixed-requests.ts';

const model = await modelFolder('');
/** Everything of an aborted request is free by then: no deadline of a transfer is as short. */
const FREE_WITHIN_MS = 5000;

const GUESSING = '{"method": "ngram", "prompt_lookup_max": 3, "prompt_lookup_min": 1}';

function cluster(options: Partial<ClusterOptions>): Promise<Cluster> {
  return Cluster.start({
    model,
    producers: 1,
    consumers: 1,
    proxyArgs: ['--prefill-threshold', '0'],
    ...options,
  });
}

async function plainAnswers(requests: readonly MixedRequest[]): Promise<unknown[]> {
  const plain = await startServeProcess([model, '--num-threads', '1']);
  try {
    return await answersOf(plain.url, requests, 8);
  } finally {
    await plain.stop();
  }
}

describe('disaggregated serving', needsNative, () => {
  describe('when decode instances are killed in the middle of streams', () => {
    const requests: MixedRequest[] = Array.from({ length: 8 }, (_, index) => ({
      path: index % 2 === 0 ? '/v1/completions' : '/v1/chat/completions',
      body: {
        ...(index % 2 === 0
          ? { prompt: `Once upon a time, there was a dog number ${index}` }
          : { messages: [{ role: 'user', content: `Tell me a story about ${index} dogs.` }] }),
        max_tokens: 400,
        ignore_eos: true,
        temperature: 0.9,
        seed: index,
        stream: true,
        ...(index > 3 && { n: 2 }),
        ...(index > 5 && (index % 2 === 0 ? { logprobs: 2 } : { logprobs: true, top_logprobs: 2 })),
      },
    }));

    it('the clients get the bytes of an uninterrupted stream', async () => {
      const expected = await plainAnswers(requests);
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
    });
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

  describe.each([
    {
      name: 'the buffer',
      kv_buffer_size: 10,
      mem_pool_size_gb: 0.25,
      path: 'svc:kv_transfer_via_pool_total',
    },
    {
      name: 'buffer and pool',
      kv_buffer_size: 10,
      mem_pool_size_gb: 0,
      path: 'svc:kv_transfer_recomputed_total',
    },
  ])('when $name cannot take one request', ({ kv_buffer_size, mem_pool_size_gb, path }) => {
    it.each(['PUT_ASYNC', 'PUT', 'GET'] as const)('answers rightly with %s', async (sendType) => {
      const requests = mixedRequests(24, 3);
      const expected = await plainAnswers(requests);
      // What P holds in GET is bounded by its buffer too: only D is to have none.
      const group = await cluster({
        sendType,
        consumers: 0,
        extraConfig: { mem_pool_size_gb: 0.25 },
      });
      try {
        await group.spawn('kv_consumer', { kv_buffer_size, extra: { mem_pool_size_gb } });
        await group.untilReady();
        expect(await answersOf(group.url, requests, 8)).toEqual(expected);
        const metrics = await readMetrics(group.consumers[0]!.url);
        expect(metrics.get(path)).toBeGreaterThan(0);
        expect(metrics.get('svc:kv_transfer_via_buffer_total')).toBe(0);
        expect(await untilNothingIsHeld(group)).toBeLessThan(FREE_WITHIN_MS);
      } finally {
        await group.stop();
      }
    });
  });
});
