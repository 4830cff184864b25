// Instances whose models are in pipeline stages, some of them of ranks: each stage sends, or takes, the blocks of its layers, and what comes through the
// pair is what one plain instance answers, also where some layers see a window alone, have other heads, or keep states.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { modelFolder } from '../../src/models/model-folder.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { Cluster, readMetrics } from '../helpers/cluster.ts';
import { needsNative } from '../helpers/needs.ts';
import { startServeProcess } from '../helpers/svc-process.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { writeHeadsModel } from '../helpers/tiny-models.ts';
import { answersOf, mixedRequests } from './mixed-requests.ts';
import { STATE_MODEL } from './state-model.ts';

const REQUESTS = mixedRequests(40, 5);
const AT_ONCE = 8;
const IN_STAGES = ['--pipeline-parallel-size', '2', '--num-threads', '2'];
const OF_RANKS = ['-pp', '2', '-tp', '2', '--num-threads', '4'];
const IN_FOUR = ['-pp', '4', '--num-threads', '4'];
const plainModel = await modelFolder('');
const newFolder = temporaryFolders();
const [withWindows, withHeads] = [newFolder(), newFolder()];
beforeAll(() => writeHeadsModel(withHeads));
beforeAll(() =>
  writeTinyModel(withWindows, {
    architecture: 'MistralForCausalLM',
    seed: 2,
    config: {
      num_hidden_layers: 7,
      sliding_window: 24,
      layer_types: Array.from({ length: 7 }, (_, i) =>
        i % 3 === 2 ? 'full_attention' : 'sliding_attention',
      ),
    },
  }),
);

interface Pair {
  readonly name: string;
  readonly transport: 'shm' | 'tcp';
  readonly producerArgs?: readonly string[];
  readonly consumerArgs?: readonly string[];
}

interface Kind {
  readonly kind: string;
  readonly model: string;
  readonly modelArgs?: readonly string[];
  readonly pairs: readonly Pair[];
}

describe.each<Kind>([
  {
    kind: 'a plain model',
    model: plainModel,
    pairs: [
      { name: 'from two stages of two ranks to one of one', producerArgs: OF_RANKS, transport: 'tcp' },
      { name: 'from one stage to two', consumerArgs: IN_STAGES, transport: 'shm' },
    ],
  },
  {
    kind: 'a model with windows',
    model: withWindows,
    pairs: [
      {
        name: 'from four stages to two of two ranks',
        producerArgs: IN_FOUR,
        consumerArgs: OF_RANKS,
        transport: 'tcp',
      },
    ],
  },
  {
    kind: 'a model with states',
    model: plainModel,
    modelArgs: STATE_MODEL,
    pairs: [
      {
        name: 'from two stages of two ranks to as many',
        producerArgs: OF_RANKS,
        consumerArgs: OF_RANKS,
        transport: 'tcp',
      },
    ],
  },
  {
    kind: 'a model whose layers differ in their heads',
    model: withHeads,
    pairs: [
      {
        name: 'from two stages of two ranks to as many',
        producerArgs: OF_RANKS,
        consumerArgs: OF_RANKS,
        transport: 'shm',
      },
    ],
  },
])('mixed requests of $kind', needsNative, ({ model, modelArgs = [], pairs }) => {
  let expected: unknown[];
  beforeAll(async () => {
    const plain = await startServeProcess([model, '--num-threads', '1', ...modelArgs]);
    try {
      expected = await answersOf(plain.url, REQUESTS, AT_ONCE);
    } finally {
      await plain.stop();
    }
  });

  describe.each(pairs)('$name over $transport', ({ name: _, ...options }) => {
    let cluster: Cluster;
    beforeAll(async () => {
      cluster = await Cluster.start({
        model,
        producers: 1,
        consumers: 1,
        sendType: 'PUT_ASYNC',
        serveArgs: ['--max-num-batched-tokens', '64', ...modelArgs],
        proxyArgs: ['--prefill-threshold', '0'],
        ...options,
      });
    });
    afterAll(() => cluster?.stop());

    it('get the bytes of one plain instance, and no prompt is computed twice', async () => {
      const answers = await answersOf(cluster.url, REQUESTS, AT_ONCE);
      for (const [index, answer] of answers.entries()) {
        expect(answer, JSON.stringify(REQUESTS[index])).toEqual(expected[index]);
      }
      const metrics = await readMetrics(cluster.consumers[0]!.url);
      expect(metrics.get('svc:kv_transfer_loaded_tokens_total')).toBeGreaterThan(0);
      expect(metrics.get('svc:kv_transfer_recomputed_total')).toBe(0);
    });
  });
});
