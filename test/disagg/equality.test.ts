// The law of disaggregated serving: what comes through prefill and decode instances is, to the bit, what one plain
// instance answers.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { SendType, TransportChoice } from '../../src/config/kv-transfer-config.ts';
import { modelFolder } from '../../src/models/model-folder.ts';
import { Cluster, readMetrics } from '../helpers/cluster.ts';
import { needsNative } from '../helpers/needs.ts';
import { startServeProcess } from '../helpers/svc-process.ts';
import { answersOf, mixedRequests } from './mixed-requests.ts';

const model = await modelFolder('');

interface Format {
  readonly name: string;
  readonly args: readonly string[];
  readonly numRequests: number;
  readonly sendTypes: readonly SendType[];
  readonly producers: number;
  readonly transports: readonly TransportChoice[];
}

const ONE_PAIR = { sendTypes: ['PUT_ASYNC'], producers: 1, transports: ['auto'] } as const;
/** The same weights, with shorter sight in two layers of four. */
const WINDOWS = {
  architectures: ['MistralForCausalLM'],
  sliding_window: 24,
  layer_types: ['sliding_attention', 'full_attention', 'sliding_attention', 'full_attention'],
};
const FORMATS: readonly Format[] = [
  {
    name: 'published weights',
    args: [],
    numRequests: 64,
    sendTypes: ['PUT_ASYNC', 'PUT', 'GET'],
    producers: 2,
    // A producer that is free to choose sends to each consumer by the only link that it has.
    transports: ['shm', 'tcp'],
  },
  {
    name: 'weights, keys and values in int8',
    args: ['--quantization', 'int8', '--kv-cache-dtype', 'int8'],
    numRequests: 40,
    ...ONE_PAIR,
  },
  { name: 'keys and values in fp8', args: ['--kv-cache-dtype', 'fp8'], numRequests: 30, ...ONE_PAIR },
  {
    name: 'a window in every other layer',
    args: ['--hf-overrides', JSON.stringify(WINDOWS)],
    numRequests: 30,
    ...ONE_PAIR,
  },
];

describe.each(FORMATS)('$numRequests mixed requests with $name', needsNative, (format) => {
  const requests = mixedRequests(format.numRequests, 7);
  let expected: unknown[];
  beforeAll(async () => {
    const plain = await startServeProcess([model, '--num-threads', '1', ...format.args]);
    try {
      expected = await answersOf(plain.url, requests, 16);
    } finally {
      await plain.stop();
    }
  });

  describe.each(format.sendTypes)(`through ${describeCluster(format)}, %s`, (sendType) => {
    let cluster: Cluster;
    beforeAll(async () => {
      cluster = await Cluster.start({
        model,
        producers: format.producers,
        consumers: format.transports.map((transport) => ({ extra: { transport } })),
        sendType,
        // Short chunks, so that prompts leave in pieces.
        serveArgs: ['--max-num-batched-tokens', '64', ...format.args],
        proxyArgs: ['--prefill-threshold', '0'],
      });
    });
    afterAll(() => cluster?.stop());

    it('get the bytes that one plain instance gives', async () => {
      const answers = await answersOf(cluster.url, requests, 16);
      for (const [index, answer] of answers.entries()) {
        expect(answer, JSON.stringify(requests[index])).toEqual(expected[index]);
      }
      for (const { url } of cluster.consumers) {
        const metrics = await readMetrics(url);
        expect(metrics.get('svc:kv_transfer_loaded_tokens_total')).toBeGreaterThan(0);
        expect(metrics.get('svc:kv_transfer_recomputed_total')).toBe(0);
      }
    });
  });
});

function describeCluster({ producers, transports }: Format): string {
  return `${producers} P and ${transports.map((transport) => `a D on ${transport}`).join(' and ')}`;
}

describe('instances that keep keys and values in different formats', needsNative, () => {
  it('exchange none: the consumer computes the prompts itself, and answers as it would alone', async () => {
    const requests = mixedRequests(12, 7);
    const plain = await startServeProcess([model, '--num-threads', '1']);
    const expected = await answersOf(plain.url, requests, 4).finally(() => plain.stop());
    const cluster = await Cluster.start({
      model,
      producers: 1,
      consumers: 1,
      producerArgs: ['--kv-cache-dtype', 'fp8'],
      proxyArgs: ['--prefill-threshold', '0'],
    });
    try {
      expect(await answersOf(cluster.url, requests, 4)).toEqual(expected);
      const metrics = await readMetrics(cluster.consumers[0]!.url);
      expect(metrics.get('svc:kv_transfer_loaded_tokens_total')).toBe(0);
    } finally {
      await cluster.stop();
    }
  }, 120_000);
});
