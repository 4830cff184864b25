// Puts one fault into one step of the transfer protocol while requests run, and tells what came of it. Two producers and two
// consumers, each a process of its own, and a real proxy in this one; all that the instances say to each other passes a
// wiretap.

import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { SendType, TransportChoice } from '../../src/config/kv-transfer-config.ts';
import { proxyConfig } from '../../src/config/proxy-options.ts';
import { messageOf } from '../../src/errors.ts';
import { PROXY_DEADLINES, type ProxyDeadlines } from '../../src/proxy/deadlines.ts';
import { ProxyServer } from '../../src/proxy/proxy-server.ts';
import { readInstances } from '../helpers/cluster.ts';
import { NUM_BLOCKS } from '../helpers/kv-instance.ts';
import { freePorts } from '../helpers/svc-process.ts';
import { until } from '../helpers/until.ts';
import { expectedTokens } from './fake-engine-instance.ts';
import type { FakeEngineProcessOptions } from './fake-engine-process.ts';
import { spawnFakeEngines } from './spawn-fake-engines.ts';
import { Wiretap } from './tampering-proxy.ts';

export const PROCESS_FAULTS = ['kill', 'stop'] as const;
export const LINK_FAULTS = ['reset', 'flip', 'half-open'] as const;
/** Steps that two instances take only when they meet. */
export const FIRST_STEPS = ['hello', 'welcome', 'link'];
export const STEPS: Readonly<Record<SendType, readonly string[]>> = {
  PUT_ASYNC: ['hello', 'welcome', 'reserve', 'granted', 'link', 'data', 'received'],
  PUT: ['hello', 'welcome', 'reserve', 'granted', 'link', 'data', 'received'],
  GET: ['hello', 'welcome', 'pull', 'pulled', 'link', 'data', 'received'],
};

export interface Scenario {
  readonly fault: (typeof PROCESS_FAULTS)[number] | (typeof LINK_FAULTS)[number];
  /** Whose process is killed or stopped; a link has two sides. */
  readonly side: 'P' | 'D';
  readonly step: string;
}

/** Every fault at every step. */
export function allScenarios(sendType: SendType): Scenario[] {
  const sides = ['P', 'D'] as const;
  return STEPS[sendType].flatMap((step) => [
    ...PROCESS_FAULTS.flatMap((fault) => sides.map((side) => ({ fault, side, step }))),
    ...LINK_FAULTS.map((fault) => ({ fault, side: 'D' as const, step })),
  ]);
}

export interface Outcome {
  /** Requests, those that were answered rightly and wrongly, and why others were not. */
  readonly requests: number;
  readonly right: number;
  readonly wrong: number;
  readonly failures: readonly string[];
  readonly slowestMs: number;
  /** One that took longer has waited for a deadline that it should not. */
  readonly allowedMs: number;
  /** Whether the fault was put in. */
  readonly hasHappened: boolean;
  /** What the instances that are left still hold: blocks, receive buffers, transfers. */
  readonly leftOver: number;
}

interface Answer {
  /** Null where there is none. */
  readonly isRight: boolean | null;
  readonly failure: string | null;
  readonly ms: number;
}

/** How long a scenario waits for the step at which its fault is put in, and for blocks to go again: on a busy machine D computes most of them. */
const PATIENCE_MS = 60_000;

/** Short, so that a scenario takes seconds. */
const DEADLINES = {
  answer: 500,
  ping: 300,
  missedPings: 3,
  hold: 3000,
  stall: 1000,
  put: 2000,
  unclaimed: 3000,
  room: 1000,
  load: 3000,
  unknown: 300,
  sweep: 50,
};
/** How much of one request is computed at most: a P and a D do their parts, and two others once more. */
const MOST_PARTS = 4;
const NUM_REQUESTS = 8;
const PROMPT_TOKENS = 61;
const ANSWER_TOKENS = 6;
/** Between two requests that an instance answers alone. */
const ALONE_PAUSE_MS = 1000;
/** A request that takes longer hangs. */
const REQUEST_DEADLINE_MS = 60_000;
const CLEAN_DEADLINE_MS = 12_000;
const START_DEADLINE_MS = 100_000;

const Stats = z.object({
  stats: z.object({
    send: z.looseObject({ holding: z.number(), bytesOver: z.record(z.string(), z.number()) }),
    receive: z.looseObject({
      receiveBuffers: z.number(),
      bufferUsedBytes: z.number(),
      poolUsedBytes: z.number(),
    }),
  }),
  numFreeBlocks: z.number(),
  numInFlight: z.number(),
});

interface FakeEngine {
  readonly role: 'kv_producer' | 'kv_consumer';
  readonly child: ChildProcess;
  readonly url: string;
  readonly httpAddress: string;
}

interface FaultRigOptions {
  readonly sendType: SendType;
  readonly transport: TransportChoice;
  /** Of the proxy, where they differ from those of `svc proxy`. */
  readonly deadlines?: Partial<ProxyDeadlines>;
  /** Ranks of each consumer; left out, one. */
  readonly consumerDegree?: number;
}

export class FaultRig {
  readonly #proxy: ProxyServer;
  /** How long a request may wait for an instance that has stopped, or for one that is late. */
  readonly #silence: number;
  readonly #tap = new Wiretap();
  readonly #sendType: SendType;
  readonly #transport: TransportChoice;
  readonly #consumerDegree: number;
  readonly #fakes: FakeEngine[] = [];
  /** One that no other instance and no proxy knows, and so no fault concerns: how long it takes for a request is what the machine allows just now. */
  #bystander?: FakeEngine;
  #numPrompts = 0;
  /** Those that know all others. */
  readonly #acquainted = new WeakSet<FakeEngine>();

  private constructor(
    proxy: ProxyServer,
    silence: number,
    { sendType, transport, consumerDegree = 1 }: Omit<FaultRigOptions, 'deadlines'>,
  ) {
    this.#proxy = proxy;
    this.#silence = silence;
    this.#sendType = sendType;
    this.#transport = transport;
    this.#consumerDegree = consumerDegree;
  }

  static async start({ deadlines: given = {}, ...of }: FaultRigOptions): Promise<FaultRig> {
    const deadlines = { ...PROXY_DEADLINES, ...given };
    const proxy = await ProxyServer.listen(
      { ...proxyConfig(), port: 0, discoveryPort: 0, prefillThreshold: 0 },
      { deadlines },
    );
    const rig = new FaultRig(proxy, deadlines.expiry + deadlines.late, of);
    await Promise.all([rig.#refill(), rig.#standBy()]);
    return rig;
  }

  /** Runs requests, puts the fault in at its step, and sees to it that the next scenario finds everything whole. */
  async run({ fault, side, step }: Scenario): Promise<Outcome> {
    const victim = await this.#pickVictim(side, FIRST_STEPS.includes(step));
    for (const fake of this.#fakes) this.#acquainted.add(fake);
    let hasHappened = false;
    this.#tap.onStep = (name) => {
      if (name !== step || hasHappened) return;
      hasHappened = true;
      this.#put(fault, victim);
    };
    const answers: Answer[] = [];
    const over = new AbortController();
    const others = this.#fakes.filter((fake) => fake !== victim);
    const alone = Promise.all(
      [this.#bystander!, ...others].map((fake) => this.#answersAlone(fake, over.signal)),
    );
    const deadline = performance.now() + PATIENCE_MS;
    do {
      const round = Array.from({ length: NUM_REQUESTS }, (_, index) =>
        this.#ask(this.#proxy.url, index % 2 === 0),
      );
      answers.push(...(await Promise.all(round)));
      // Right after a fault the instances may still keep apart and compute prompts themselves.
    } while (!hasHappened && performance.now() < deadline);
    over.abort();
    this.#tap.onStep = () => {};
    this.#tap.fault = 'none';
    this.#tap.isControlCut = false;
    // A stopped one is not looked at: it wakes up, finds that it was given up, and must be whole as well.
    victim.child.kill('SIGCONT');
    const [ofBystander = [], ...ofOthers] = await alone;
    answers.push(...ofBystander, ...ofOthers.flat());
    const count = (wanted: boolean): number => answers.filter(({ isRight }) => isRight === wanted).length;
    const leftOver = await this.#leftOver();
    return {
      requests: answers.length,
      right: count(true),
      wrong: count(false),
      failures: answers.flatMap(({ failure }) => failure ?? []),
      slowestMs: slowestOf(answers),
      allowedMs: this.#longestWaitMs + MOST_PARTS * slowestOf(ofBystander),
      hasHappened,
      leftOver,
    };
  }

  /** Over which the instances that live have sent blocks. Of a round with a fault none of them may have come in time: more requests follow. */
  async transports(): Promise<string[]> {
    for (const deadline = performance.now() + PATIENCE_MS; ; await this.#ask(this.#proxy.url, true)) {
      const all = await Promise.all(this.#alive().map((fake) => statsOf(fake)));
      const sent = all.flatMap((one) => Object.entries(one?.stats.send.bytesOver ?? {}));
      const used = sent.flatMap(([transport, bytes]) => (bytes > 0 ? [transport] : []));
      if (used.length > 0 || performance.now() > deadline) return [...new Set(used)];
    }
  }

  async close(): Promise<void> {
    for (const { child } of this.#fakes) child.kill('SIGKILL');
    this.#bystander?.child.kill('SIGKILL');
    await this.#proxy.close();
    await this.#tap.close();
  }

  /** The newest of its kind; `isFirst`: it is to meet the others first. */
  async #pickVictim(side: Scenario['side'], isFirst: boolean): Promise<FakeEngine> {
    const wanted = side === 'P' ? 'kv_producer' : 'kv_consumer';
    const newest = (): FakeEngine => this.#fakes.findLast(({ role }) => role === wanted)!;
    await this.#refill();
    if (!isFirst || !this.#acquainted.has(newest())) return newest();
    await this.#killAll();
    await this.#refill();
    return newest();
  }

  async #killAll(): Promise<void> {
    const exits = this.#alive().map(({ child }) => once(child, 'exit'));
    for (const { child } of this.#fakes) child.kill('SIGKILL');
    await Promise.all(exits);
  }

  #put(fault: Scenario['fault'], victim: FakeEngine): void {
    if (fault === 'kill') victim.child.kill('SIGKILL');
    else if (fault === 'stop') victim.child.kill('SIGSTOP');
    else this.#tap.fault = fault;
    if (fault === 'half-open') this.#tap.isControlCut = true;
  }

  /** One after the other: an instance is given up, P answers without D, no blocks come to D. */
  get #longestWaitMs(): number {
    return this.#silence + (this.#sendType === 'PUT' ? DEADLINES.put : 0) + DEADLINES.load;
  }

  /** An instance answers requests alone until all is `over`. */
  async #answersAlone({ url }: FakeEngine, over: AbortSignal): Promise<Answer[]> {
    const answers: Answer[] = [];
    do {
      answers.push(await this.#ask(url, true));
      await sleep(ALONE_PAUSE_MS, undefined, { signal: over }).catch(() => {});
    } while (!over.aborted);
    return answers;
  }

  async #ask(url: string, isStream: boolean): Promise<Answer> {
    const seed = this.#numPrompts++;
    const prompt = Array.from({ length: PROMPT_TOKENS }, (_, index) => (seed * 97 + index * 13) % 50_000);
    const startedAt = performance.now();
    const expected = expectedTokens(prompt, ANSWER_TOKENS)
      .map((token) => ` ${token}`)
      .join('');
    const answer = await this.#complete(url, prompt, isStream).then(
      (text) => ({ isRight: text === expected, failure: null }),
      (error: unknown) => ({ isRight: null, failure: `${url}: ${reasonOf(error)}` }),
    );
    return { ...answer, ms: performance.now() - startedAt };
  }

  async #complete(url: string, prompt: readonly number[], stream: boolean): Promise<string> {
    const response = await fetch(`${url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ prompt, max_tokens: ANSWER_TOKENS, stream, temperature: 0 }),
      signal: AbortSignal.timeout(REQUEST_DEADLINE_MS),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(text);
    const parts = stream ? text.split('\n').filter((line) => line.startsWith('data: {')) : [text];
    return parts.map((part) => JSON.parse(part.replace(/^data: /, '')).choices[0].text).join('');
  }

  /** Waits until nothing is left over, or for long enough. */
  async #leftOver(): Promise<number> {
    const deadline = performance.now() + CLEAN_DEADLINE_MS;
    for (;;) {
      const perInstance = await Promise.all(this.#alive().map((fake) => leftOverOf(fake)));
      const sum = perInstance.reduce((total, one) => total + one, 0);
      if (sum === 0 || performance.now() > deadline) return sum;
      await sleep(50);
    }
  }

  #alive(): FakeEngine[] {
    return this.#fakes.filter(({ child }) => child.exitCode === null && child.signalCode === null);
  }

  get #discoveryPort(): number {
    return Number(this.#proxy.discoveryAddress.split(':').at(-1));
  }

  /** Two of each kind, known to the proxy. */
  async #refill(): Promise<void> {
    this.#fakes.splice(0, this.#fakes.length, ...this.#alive());
    const missing = (['kv_producer', 'kv_consumer'] as const).flatMap((role) =>
      Array.from({ length: 2 - this.#fakes.filter((fake) => fake.role === role).length }, () => role),
    );
    this.#fakes.push(...(await Promise.all(missing.map((role) => this.#spawn(role)))));
    const wanted = this.#fakes.map(({ httpAddress }) => httpAddress);
    await until(async () => {
      const known = (await readInstances(this.#proxy.url)).filter(({ state }) => state === 'ready');
      return wanted.every((address) => known.some(({ http_address }) => http_address === address));
    }, START_DEADLINE_MS);
  }

  async #standBy(): Promise<void> {
    const [nowhere = 0] = await freePorts(1);
    this.#bystander = await this.#spawn('kv_consumer', nowhere);
  }

  async #spawn(role: FakeEngine['role'], discoveryPort = this.#discoveryPort): Promise<FakeEngine> {
    const [httpPort = 0, port = 0, doorPort = 0] = await freePorts(3);
    await this.#tap.addDoor(doorPort, `127.0.0.1:${port}`);
    const options: FakeEngineProcessOptions = {
      role,
      sendType: this.#sendType,
      transport: this.#transport,
      httpPort,
      port,
      doorPort,
      discoveryPort,
      blockMs: 3,
      tokenMs: 3,
      isOnGpu: this.#transport === 'cuda-ipc' || this.#transport === 'nccl',
      degree: role === 'kv_consumer' ? this.#consumerDegree : 1,
      deadlines: DEADLINES,
    };
    const child = await spawnFakeEngines([options]);
    const httpAddress = `127.0.0.1:${httpPort}`;
    return { role, child, url: `http://${httpAddress}`, httpAddress };
  }
}

/** With what lies behind a fetch that has failed. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined ? ` (${messageOf(error.cause)})` : '';
  return messageOf(error) + cause;
}

function slowestOf(answers: readonly Answer[]): number {
  return Math.max(...answers.map(({ ms }) => ms));
}

async function statsOf({ url }: FakeEngine): Promise<z.output<typeof Stats> | null> {
  const response = await fetch(`${url}/stats`, { signal: AbortSignal.timeout(2000) }).catch(() => null);
  return response === null ? null : Stats.parse(await response.json());
}

async function leftOverOf(fake: FakeEngine): Promise<number> {
  const all = await statsOf(fake);
  if (all === null) return 1;
  const { stats, numFreeBlocks, numInFlight } = all;
  const { receiveBuffers, bufferUsedBytes, poolUsedBytes } = stats.receive;
  const isWhole = numFreeBlocks === NUM_BLOCKS && bufferUsedBytes === 0 && poolUsedBytes === 0;
  return stats.send.holding + receiveBuffers + numInFlight + (isWhole ? 0 : 1);
}
