// Puts one fault into one step of a transfer between real servers while requests run, and tells what came of it. One producer and two
// consumers, of any degree; all that they say to each other passes a wiretap.

import { isDeepStrictEqual } from 'node:util';
import {
  Cluster,
  type ClusterOptions,
  type Instance,
  isAlive,
  readMetrics,
  transportsOf,
} from '../helpers/cluster.ts';
import { untilNothingIsHeld } from './client-disconnects.ts';
import { FIRST_STEPS } from './fault-rig.ts';
import { answersOf, type MixedRequest } from './mixed-requests.ts';
import { Wiretap } from './tampering-proxy.ts';

/** Of a process, one of its ranks, or the links; those break for all. */
export const SERVER_FAULTS = ['kill', 'end of rank 1', 'flip', 'half-open'] as const;

export interface ServerScenario {
  readonly fault: (typeof SERVER_FAULTS)[number];
  readonly side: 'P' | 'D';
  readonly step: string;
}

export interface ServerOutcome {
  readonly requests: number;
  /** Those that got other bytes than from one plain instance. */
  readonly wrong: readonly { readonly answer: unknown; readonly expected: unknown }[];
  /** Whether the fault was put in. */
  readonly hasHappened: boolean;
  /** Of the process that ended: null where it was killed. */
  readonly exitCode?: number | null;
  /** What the victim has written to stderr. */
  readonly said: string;
  /** Over which the newest producer has sent blocks; none where it has ended. */
  readonly transports: readonly string[];
  /** Prompts whose blocks came to a consumer in vain. */
  readonly recomputed: number;
  /** Milliseconds until those that live hold nothing any more. */
  readonly freeMs: number;
}

export interface ServerFaultRigOptions extends Omit<ClusterOptions, 'producers' | 'consumers' | 'tap'> {
  readonly requests: readonly MixedRequest[];
  /** What one plain instance answers. */
  readonly expected: readonly unknown[];
}

const RANK_KILLER = new URL('../helpers/rank-killer.mjs', import.meta.url).href;
/** How long a scenario waits for its step: right after a fault instances may keep apart. */
const PATIENCE_MS = 60_000;

export class ServerFaultRig {
  readonly #cluster: Cluster;
  readonly #tap: Wiretap;
  readonly #requests: readonly MixedRequest[];
  readonly #expected: readonly unknown[];
  /** Those that know all others. */
  readonly #acquainted = new WeakSet<Instance>();

  private constructor(cluster: Cluster, tap: Wiretap, { requests, expected }: ServerFaultRigOptions) {
    this.#cluster = cluster;
    this.#tap = tap;
    this.#requests = requests;
    this.#expected = expected;
  }

  static async start(options: ServerFaultRigOptions): Promise<ServerFaultRig> {
    const tap = new Wiretap();
    const { serveArgs = [], proxyArgs = [], env } = options;
    const cluster = await Cluster.start({
      ...options,
      producers: 1,
      consumers: 2,
      // Each scenario sends the same prompts again.
      serveArgs: ['--no-enable-prefix-caching', ...serveArgs],
      proxyArgs: ['--prefill-threshold', '0', ...proxyArgs],
      env: { ...env, NODE_OPTIONS: `--import=${RANK_KILLER}` },
      tap,
    });
    return new ServerFaultRig(cluster, tap, options);
  }

  /** Runs requests, puts the fault in at its step, and replaces what has ended of it. */
  async run({ fault, side, step }: ServerScenario): Promise<ServerOutcome> {
    const victim = await this.#pickVictim(side, FIRST_STEPS.includes(step));
    for (const instance of this.#cluster.instances) this.#acquainted.add(instance);
    const ended = new Promise<number | null>((resolve) => victim.child.once('exit', resolve));
    let hasHappened = false;
    this.#tap.onStep = (name) => {
      if (name !== step || hasHappened) return;
      hasHappened = true;
      this.#put(fault, victim);
    };
    const answers: unknown[] = [];
    const patience = performance.now() + PATIENCE_MS;
    do {
      answers.push(...(await answersOf(this.#cluster.url, this.#requests, this.#requests.length)));
    } while (!hasHappened && performance.now() < patience);
    this.#tap.onStep = () => {};
    this.#tap.fault = 'none';
    this.#tap.isControlCut = false;
    const ends = hasHappened && (fault === 'kill' || fault === 'end of rank 1');
    const exit = ends ? { exitCode: await ended } : {};
    const outcome = {
      requests: answers.length,
      wrong: answers.flatMap((answer, index) => this.#ifWrong(answer, index)),
      hasHappened,
      ...exit,
      said: victim.stderr(),
      transports: await this.#transports(),
      recomputed: await this.#recomputed(),
      freeMs: await untilNothingIsHeld(this.#cluster),
    };
    if (ends) await this.#replace(side);
    return outcome;
  }

  async close(): Promise<void> {
    await this.#cluster.stop();
    await this.#tap.close();
  }

  /** The newest of its kind; `isFirst`: it is to meet the others first. */
  async #pickVictim(side: ServerScenario['side'], isFirst: boolean): Promise<Instance> {
    const newest = (): Instance => this.#instancesOf(side).at(-1)!;
    if (!isFirst || !this.#acquainted.has(newest())) return newest();
    await newest().stop();
    await this.#replace(side);
    return newest();
  }

  async #replace(side: ServerScenario['side']): Promise<void> {
    await this.#cluster.spawn(side === 'P' ? 'kv_producer' : 'kv_consumer');
    await this.#cluster.untilReady();
  }

  #instancesOf(side: ServerScenario['side']): readonly Instance[] {
    return side === 'P' ? this.#cluster.producers : this.#cluster.consumers;
  }

  #put(fault: ServerScenario['fault'], { child }: Instance): void {
    if (fault === 'kill') child.kill('SIGKILL');
    else if (fault === 'end of rank 1') child.kill('SIGUSR2');
    else this.#tap.fault = fault;
    if (fault === 'half-open') this.#tap.isControlCut = true;
  }

  #ifWrong(answer: unknown, index: number): ServerOutcome['wrong'] {
    const expected = this.#expected[index % this.#expected.length];
    return isDeepStrictEqual(answer, expected) ? [] : [{ answer, expected }];
  }

  async #transports(): Promise<string[]> {
    const p = this.#cluster.producers.at(-1)!;
    return isAlive(p) ? await transportsOf(p.url) : [];
  }

  async #recomputed(): Promise<number> {
    const metrics = await Promise.all(
      this.#cluster.consumers.filter(isAlive).map(({ url }) => readMetrics(url)),
    );
    return metrics.reduce((sum, one) => sum + (one.get('svc:kv_transfer_recomputed_total') ?? 0), 0);
  }
}
