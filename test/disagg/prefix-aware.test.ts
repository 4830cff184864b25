// Two turns of a conversation with --policy prefix_aware: the second goes to the consumer alone where that can go on from what it has, and over
// the producer where it cannot.

import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { modelFolder } from '../../src/models/model-folder.ts';
import { Cluster, readMetrics } from '../helpers/cluster.ts';
import { needsNative } from '../helpers/needs.ts';
import { STATE_MODEL } from './state-model.ts';

const FIRST_TURN = Array.from({ length: 200 }, (_, position) => 5 + ((position * 37) % 400));
const SECOND_TURN = [...FIRST_TURN, ...Array.from({ length: 24 }, (_, position) => 7 + position)];
const model = await modelFolder('');

const Completion = z.object({ usage: z.object({ prompt_tokens: z.number() }) });

async function complete(url: string, prompt: readonly number[]): Promise<void> {
  const response = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt, max_tokens: 2, temperature: 0, ignore_eos: true }),
  });
  expect(Completion.parse(await response.json()).usage.prompt_tokens).toBe(prompt.length);
}

/** Of the second turn: those that the consumer computed itself, and how often the producer was skipped. */
async function secondTurn(serveArgs: readonly string[]) {
  const cluster = await Cluster.start({
    model,
    producers: 1,
    consumers: 1,
    serveArgs,
    proxyArgs: ['--policy', 'prefix_aware', '--prefill-threshold', '64'],
  });
  try {
    const numKnown = async (): Promise<number> => {
      const metrics = await readMetrics(cluster.consumers[0]!.url);
      const [own, received] = ['prefix_cache_hits', 'kv_transfer_loaded_tokens'];
      return metrics.get(`svc:${own}_total`)! + metrics.get(`svc:${received}_total`)!;
    };
    await complete(cluster.url, FIRST_TURN);
    const before = await numKnown();
    await complete(cluster.url, SECOND_TURN);
    const skips = (await readMetrics(cluster.url)).get('svc:proxy_prefill_skipped_total');
    return { numComputed: SECOND_TURN.length - ((await numKnown()) - before), skips };
  } finally {
    await cluster.stop();
  }
}

describe('the second turn of a conversation', needsNative, () => {
  it.concurrent.each([
    ['goes on from the blocks that the consumer has received', [], 1],
    ['goes over the producer again where the layers keep states', STATE_MODEL, 0],
  ] as const)('%s', async (_name, serveArgs, skips) => {
    const turn = await secondTurn(serveArgs);
    expect(turn).toEqual({ numComputed: expect.any(Number), skips });
    expect(turn.numComputed).toBeLessThan(64);
  });
});
