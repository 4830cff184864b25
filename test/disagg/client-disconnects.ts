// Clients that leave at random moments, and how long it takes until nothing is kept for them any more.

import { setTimeout as sleep } from 'node:timers/promises';
import { uniform } from '../../src/sampling/random-stream.ts';
import { type Cluster, isAlive, readMetrics } from '../helpers/cluster.ts';

/** What instances hold for requests. */
const HELD = [
  'kv_transfer_holding',
  'kv_transfer_areas',
  'kv_blocks_held',
  'num_requests_running',
  'num_requests_loading',
];
const AT_ONCE = 16;
const LONGEST_STAY_MS = 300;
const DEADLINE_MS = 10_000;

/** `count` clients ask for `maxTokens` tokens each, and leave within 300 ms. @returns milliseconds from the last one's leaving until all is free. */
export async function disconnectClients(group: Cluster, count: number, maxTokens = 200): Promise<number> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) await askAndLeave(group, next++, maxTokens);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return untilNothingIsHeld(group);
}

/** Milliseconds until no living instance holds anything for a request; ten seconds where some do not let go. */
export async function untilNothingIsHeld(group: Cluster): Promise<number> {
  const startedAt = performance.now();
  while ((await held(group)) > 0 && performance.now() - startedAt < DEADLINE_MS) await sleep(20);
  return performance.now() - startedAt;
}

async function askAndLeave({ url }: Cluster, index: number, max_tokens: number): Promise<void> {
  const prompt = 'once there was a little dog who went to the forest '.repeat(1 + (index % 8)) + index;
  const body = { prompt, max_tokens, ignore_eos: true, stream: index % 2 === 0, seed: index };
  await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(1 + Math.floor(uniform(11, index, 0) * LONGEST_STAY_MS)),
  })
    .then((response) => response.text())
    .catch(() => '');
}

async function held({ instances }: Cluster): Promise<number> {
  const metrics = await Promise.all(instances.filter(isAlive).map(({ url }) => readMetrics(url)));
  const ofOne = (one: ReadonlyMap<string, number>): number =>
    HELD.reduce((sum, name) => sum + (one.get(`svc:${name}`) ?? 0), 0);
  return metrics.reduce((sum, one) => sum + ofOne(one), 0);
}
