// Instances whose models are shared otherwise, in real processes: requests through them get the bytes of one plain instance, and no
// prompt is computed twice.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { modelFolder } from '../../src/models/model-folder.ts';
import { Cluster, readMetrics } from '../helpers/cluster.ts';
import { needsNative } from '../helpers/needs.ts';
import { startServeProcess } from '../helpers/svc-process.ts';
import { answersOf, mixedRequests } from './mixed-requests.ts';

const model = await modelFolder('');
const RANKS = ['--tensor-parallel-size', '2', '--num-threads', '2'];

describe('mixed requests', needsNative, () => {
  const requests = mixedRequests(30, 7);
  let expected: unknown[];
  beforeAll(async () => {
    const plain = await startServeProcess([model, '--num-threads', '1']);
    expected = await answersOf(plain.url, requests, 16).finally(() => plain.stop());
  });

  describe.concurrent.each([
    ['a producer of 2 ranks and a consumer of large blocks', RANKS, ['--block-size', '64']],
    ['a producer of large blocks and a consumer of 2 ranks', ['--block-size', '64'], RANKS],
  ])('through %s', (_, producerArgs, consumerArgs) => {
    let cluster: Cluster;
    beforeAll(async () => {
      cluster = await Cluster.start({
        model,
        producers: 1,
        consumers: 1,
        producerArgs: ['--max-num-batched-tokens', '64', ...producerArgs],
        consumerArgs,
        proxyArgs: ['--prefill-threshold', '0'],
      });
    });
    afterAll(() => cluster?.stop());

    it('get the bytes that one plain instance gives', async () => {
      const answers = await answersOf(cluster.url, requests, 16);
      for (const [index, answer] of answers.entries()) {
        expect(answer, JSON.stringify(requests[index])).toEqual(expected[index]);
      }
      const metrics = await readMetrics(cluster.consumers[0]!.url);
      expect(metrics.get('svc:kv_transfer_loaded_tokens_total')).toBeGreaterThan(0);
      expect(metrics.get('svc:kv_transfer_recomputed_total')).toBe(0);
    });
  });
});
