// Producers and consumers of unequal degree, real processes on one machine: requests through each pair of degrees must get the bytes of
// one plain instance, with no prompt computed twice.

import { isDeepStrictEqual } from 'node:util';
import { answersOf, mixedRequests } from '../test/disagg/mixed-requests.ts';
import { Cluster, type Instance, readMetrics } from '../test/helpers/cluster.ts';
import { startServeProcess } from '../test/helpers/svc-process.ts';
import { rankArgs, withRankModel } from './rank-model.ts';
import type { Figure, Section } from './report.ts';

const DEGREES = [1, 2, 4] as const;
const NUM_REQUESTS = 200;
const AT_ONCE = 16;
const MIB = 2 ** 20;

export function pairsSection(): Promise<Section> {
  return withRankModel(measurePairs);
}

async function measurePairs(model: string): Promise<Section> {
  const requests = mixedRequests(NUM_REQUESTS, 7);
  const plain = await startServeProcess([model, '--num-threads', '1']);
  const expected = await answersOf(plain.url, requests, AT_ONCE).finally(() => plain.stop());
  const figures: Figure[] = [];
  for (const of of DEGREES) {
    for (const to of DEGREES) {
      const cluster = await Cluster.start({
        model,
        producers: 1,
        consumers: 1,
        producerArgs: rankArgs(of),
        consumerArgs: rankArgs(to),
        proxyArgs: ['--prefill-threshold', '0'],
      });
      try {
        const startedAt = performance.now();
        const answers = await answersOf(cluster.url, requests, AT_ONCE);
        const seconds = (performance.now() - startedAt) / 1000;
        const counted = await transferCounters(cluster.consumers[0]!);
        const numWrong = answers.filter((answer, i) => !isDeepStrictEqual(answer, expected[i])).length;
        const name = `P of ${of}, D of ${to}`;
        const none = { limit: null, goal: '0' };
        figures.push(
          { name: `${name}: different answers`, value: numWrong, unit: '', ...none },
          { name: `${name}: prompts computed twice`, value: counted('recomputed'), unit: '', ...none },
          {
            name: `${name}: KV blocks received`,
            value: counted('received_bytes') / MIB / seconds,
            unit: 'MiB/s',
            limit: null,
            goal: null,
          },
        );
      } finally {
        await cluster.stop();
      }
    }
  }
  return {
    title: `Pairs of unequal degree, ${NUM_REQUESTS} mixed requests each, ${AT_ONCE} at once`,
    figures,
    notes: [
      'Bytes a second over all of the run, most of which computes: what requests need, and not what links could carry.',
    ],
  };
}

/** @throws where it shows none: it exchanges no blocks, or does not answer. */
async function transferCounters({ url, stderr }: Instance): Promise<(what: string) => number> {
  const metrics = await readMetrics(url);
  return (what) => {
    const name = `svc:kv_transfer_${what}_total`;
    const value = metrics.get(name);
    if (value === undefined)
      throw new Error(`${url}/metrics shows no ${name}: has D ended? It says:\n${stderr()}`);
    return value;
  };
}
