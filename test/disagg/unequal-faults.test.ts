// Whatever ends, lies or falls silent in the middle of a transfer between real servers of unequal degree: every request gets the bytes of
// one plain instance, and nothing is left over.

import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { modelFolder } from '../../src/models/model-folder.ts';
import { Cluster, type Instance, readMetrics, transportsOf } from '../helpers/cluster.ts';
import { needsNative } from '../helpers/needs.ts';
import { startServeProcess } from '../helpers/svc-process.ts';
import { untilNothingIsHeld } from './client-disconnects.ts';
import { answersOf, mixedRequests } from './mixed-requests.ts';
import { Wiretap } from './tampering-proxy.ts';

interface Scenario {
  /** Of a process, one of its ranks, or the links; those break for all. */
  readonly fault: 'kill' | 'end of rank 1' | 'flip' | 'half-open';
  readonly side: 'P' | 'D';
  readonly step: 'hello' | 'reserve' | 'granted' | 'pulled' | 'data' | 'received';
}

/** The first is for instances that have yet to meet. */
const FROM_RANKS: readonly Scenario[] = [
  { fault: 'half-open', side: 'D', step: 'hello' },
  { fault: 'flip', side: 'D', step: 'data' },
  { fault: 'kill', side: 'P', step: 'granted' },
  { fault: 'kill', side: 'D', step: 'granted' },
  { fault: 'kill', side: 'P', step: 'data' },
  { fault: 'kill', side: 'D', step: 'received' },
  { fault: 'end of rank 1', side: 'P', step: 'reserve' },
  { fault: 'end of rank 1', side: 'P', step: 'data' },
];
const TO_RANKS: readonly Scenario[] = [
  { fault: 'flip', side: 'D', step: 'data' },
  { fault: 'half-open', side: 'D', step: 'data' },
  { fault: 'kill', side: 'P', step: 'data' },
  { fault: 'kill', side: 'D', step: 'data' },
  { fault: 'end of rank 1', side: 'D', step: 'data' },
  { fault: 'end of rank 1', side: 'D', step: 'received' },
];
/** D reads the memory of P: no data passes the wiretap. */
const IN_MEMORY: readonly Scenario[] = [
  { fault: 'kill', side: 'P', step: 'granted' },
  { fault: 'kill', side: 'D', step: 'received' },
  { fault: 'end of rank 1', side: 'D', step: 'granted' },
];
const PULLED: readonly Scenario[] = [
  { fault: 'kill', side: 'P', step: 'pulled' },
  { fault: 'flip', side: 'D', step: 'data' },
  { fault: 'end of rank 1', side: 'P', step: 'data' },
];
/** The first layer leaves when the prompt is computed. */
const AFTERWARDS: readonly Scenario[] = [
  { fault: 'end of rank 1', side: 'P', step: 'reserve' },
  { fault: 'end of rank 1', side: 'P', step: 'granted' },
  { fault: 'end of rank 1', side: 'P', step: 'data' },
];

const TCP = { sendType: 'PUT_ASYNC', transport: 'tcp' } as const;
const SHM = { sendType: 'PUT_ASYNC', transport: 'shm' } as const;
const PUT = { sendType: 'PUT', transport: 'tcp' } as const;
const GET = { sendType: 'GET', transport: 'tcp' } as const;
const RANKS = ['--tensor-parallel-size', '2', '--num-threads', '2'];
const RANK_KILLER = new URL('../helpers/rank-killer.mjs', import.meta.url).href;
const REQUESTS = mixedRequests(8, 7);
/** How long a scenario waits for its step: right after a fault instances may keep apart. */
const PATIENCE_MS = 20_000;
/** No deadline of a transfer that is held for somebody who may yet come is as short. */
const FREE_WITHIN_MS = 9000;
const model = await modelFolder('');

// Instances that start leave one of two cores idle, deadlines both: all groups run at the same time.
describe.concurrent('a fault in a transfer', needsNative, () => {
  let expected: unknown[];
  beforeAll(async () => {
    const plain = await startServeProcess([model, '--num-threads', '1']);
    expected = await answersOf(plain.url, REQUESTS, REQUESTS.length).finally(() => plain.stop());
  });

  describe.each([
    { name: 'from 2 ranks to 1', producerArgs: RANKS, ...TCP, scenarios: FROM_RANKS },
    { name: 'from 1 rank to 2', consumerArgs: RANKS, ...TCP, scenarios: TO_RANKS },
    { name: 'from 1 rank to 2', consumerArgs: RANKS, ...SHM, scenarios: IN_MEMORY },
    { name: 'from 2 ranks to 1', producerArgs: RANKS, ...PUT, scenarios: AFTERWARDS },
    { name: 'from 2 ranks to 1', producerArgs: RANKS, ...GET, scenarios: PULLED },
  ])('$name with $sendType over $transport', ({ name: _, scenarios, ...args }) => {
    const tap = new Wiretap();
    let cluster: Cluster;
    beforeAll(async () => {
      cluster = await Cluster.start({
        model,
        producers: 1,
        consumers: 2,
        // Each scenario sends the same prompts again.
        serveArgs: ['--no-enable-prefix-caching', '--max-num-batched-tokens', '64'],
        proxyArgs: ['--prefill-threshold', '0'],
        env: { NODE_OPTIONS: `--import=${RANK_KILLER}` },
        tap,
        ...args,
      });
    });
    afterAll(async () => {
      await cluster?.stop();
      await tap.close();
    });

    it.sequential.each(scenarios)('$fault of $side at $step costs no answer', async (scenario) => {
      const { fault, side, step } = scenario;
      const victim = (side === 'P' ? cluster.producers : cluster.consumers).at(-1)!;
      const ended = once(victim.child, 'exit');
      let hasHappened = false;
      tap.onStep = (name) => {
        if (name !== step || hasHappened) return;
        hasHappened = true;
        put(fault, victim, tap);
      };
      const patience = performance.now() + PATIENCE_MS;
      do {
        expect(await answersOf(cluster.url, REQUESTS, REQUESTS.length)).toEqual(expected);
      } while (!hasHappened && performance.now() < patience);
      expect(hasHappened).toBe(true);
      tap.onStep = () => {};
      tap.fault = 'none';
      tap.isControlCut = false;

      if (step === 'received')
        expect(await transportsOf(cluster.producers.at(-1)!.url)).toEqual([args.transport]);
      if (fault === 'flip') expect(await recomputed(cluster)).toBeGreaterThan(0);
      if (fault === 'kill' || fault === 'end of rank 1') {
        const [code] = await ended;
        expect(code).toBe(fault === 'kill' ? null : 1);
        if (code !== null)
          expect(victim.stderr()).toMatch(/the engine has died: .*rank 1(: its thread)? has ended/);
      }
      expect(await untilNothingIsHeld(cluster)).toBeLessThan(FREE_WITHIN_MS);
      if (victim.child.exitCode === null && victim.child.signalCode === null) return;
      await cluster.spawn(side === 'P' ? 'kv_producer' : 'kv_consumer');
      await cluster.untilReady();
    });
  });
});

/** Prompts whose blocks came in vain. */
async function recomputed({ consumers }: Cluster): Promise<number> {
  const alive = consumers.filter(({ child }) => child.exitCode === null && child.signalCode === null);
  const metrics = await Promise.all(alive.map(({ url }) => readMetrics(url)));
  return metrics.reduce((sum, one) => sum + (one.get('svc:kv_transfer_recomputed_total') ?? 0), 0);
}

function put(fault: Scenario['fault'], { child }: Instance, tap: Wiretap): void {
  if (fault === 'kill') child.kill('SIGKILL');
  else if (fault === 'end of rank 1') child.kill('SIGUSR2');
  else tap.fault = fault;
  if (fault === 'half-open') tap.isControlCut = true;
}
