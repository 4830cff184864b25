// The law of disaggregated serving: what comes through prefill and decode instances is, to the bit, what one plain
// instance answers.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { modelFolder } from '../../src/models/model-folder.ts';
import { Cluster, type ClusterOptions, readMetrics } from '../helpers/cluster.ts';
import { needsNative } from '../helpers/needs.ts';
import { startServeProcess } from '../helpers/svc-process.ts';
import { answersOf, mixedRequests } from './mixed-requests.ts';

const model = await modelFolder('');

type Setup = Omit<ClusterOptions, 'model'>;

const SETUPS: readonly Setup[] = [
  { producers: 1, consumers: 1, sendType: 'PUT_ASYNC', transport: 'shm' },
  { producers: 1, consumers: 1, sendType: 'PUT_ASYNC', transport: 'tcp' },
  { producers: 1, consumers: 1, sendType: 'PUT', transport: 'shm' },
  { producers: 1, consumers: 1, sendType: 'PUT', transport: 'tcp' },
  { producers: 1, consumers: 1, sendType: 'GET', transport: 'shm' },
  { producers: 1, consumers: 1, sendType: 'GET', transport: 'tcp' },
  { producers: 2, consumers: 3, sendType: 'PUT_ASYNC' },
  { producers: 2, consumers: 3, sendType: 'PUT' },
  { producers: 2, consumers: 3, sendType: 'GET' },
];

const FORMATS: readonly {
  name: string;
  args: readonly string[];
  numRequests: number;
  setups: readonly Setup[];
}[] = [
  { name: 'published weights', args: [], numRequests: 100, setups: SETUPS },
  {
    name: 'weights in int8',
    args: ['--quantization', 'int8'],
    numRequests: 60,
    setups: [{ producers: 1, consumers: 1, sendType: 'PUT_ASYNC' }],
  },
  ...(['fp8', 'int8'] as const).map((format) => ({
    name: `keys and values in ${format}`,
    args: ['--kv-cache-dtype', format],
    numRequests: 30,
    setups: [{ producers: 1, consumers: 1, sendType: 'PUT_ASYNC' as const }],
  })),
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

  describe.each(format.setups)('through $producers P and $consumers D, $sendType, $transport', (setup) => {
    let cluster: Cluster;
    beforeAll(async () => {
      // Short chunks, so that prompts leave in pieces.
      const serveArgs = ['--max-num-batched-tokens', '64', ...format.args];
      cluster = await Cluster.start({ model, serveArgs, proxyArgs: ['--prefill-threshold', '0'], ...setup });
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
