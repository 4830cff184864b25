// Very many instances behind one proxy, with some joining, draining and crashing all the time, under load.

import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { readInstances } from '../helpers/cluster.ts';
import { freePorts, type SvcProcess, spawnSvc, waitUntilReady } from '../helpers/svc-process.ts';
import { expectedTokens } from './fake-engine-instance.ts';
import type { FakeEngineProcessOptions } from './fake-engine-process.ts';
import { spawnFakeEngines, spawnWaiting, startFakeEngines } from './spawn-fake-engines.ts';

export interface ChurnOptions {
  readonly producers: number;
  readonly consumers: number;
  /** Processes that hold them. */
  readonly processes: number;
  readonly seconds: number;
  /** Requests in flight. */
  readonly atOnce: number;
}

export interface ChurnReport {
  readonly requests: number;
  readonly failed: number;
  readonly wrong: number;
  readonly joined: number;
  readonly drained: number;
  readonly crashed: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Resident memory and open sockets of the instances' processes, divided by min(P, D). */
  readonly bytesPerPair: number;
  readonly socketsPerPair: number;
}

const PROMPT_TOKENS = 33;
const ANSWER_TOKENS = 4;
const REQUEST_DEADLINE_MS = 30_000;
const DEADLINES = {
  answer: 2000,
  ping: 1000,
  missedPings: 3,
  hold: 10_000,
  stall: 3000,
  load: 10_000,
  unclaimed: 10_000,
};

export async function runChurn(options: ChurnOptions): Promise<ChurnReport> {
  const [port = 0, discoveryPort = 0] = await freePorts(2);
  const ports = ['--port', String(port), '--discovery-port', String(discoveryPort)];
  const proxy = spawnSvc(['proxy', ...ports, '--prefill-threshold', '0', '--log-level', 'error'], port);
  const instances = await startInstances(options, discoveryPort);
  const churn = await Churn.prepare(options.seconds, discoveryPort);
  try {
    await waitUntilReady(proxy, async ({ url }) => {
      const ready = (await readInstances(url)).filter(({ state }) => state === 'ready');
      return ready.length >= options.producers + options.consumers;
    });
    const load = new Load(proxy);
    const running = load.run(options.atOnce);
    await churn.run();
    load.stop();
    await running;
    const pairs = Math.min(options.producers, options.consumers);
    const sum = (count: (pid: number) => number): number =>
      instances.reduce((total, { pid }) => total + (pid === undefined ? 0 : count(pid)), 0);
    return {
      ...load.report(),
      ...churn.counts,
      bytesPerPair: sum(residentBytes) / pairs,
      socketsPerPair: sum(openSockets) / pairs,
    };
  } finally {
    for (const child of [...instances, ...churn.children]) child.kill('SIGKILL');
    await proxy.stop();
  }
}

async function startInstances(options: ChurnOptions, discoveryPort: number): Promise<ChildProcess[]> {
  const roles = [
    ...Array.from({ length: options.producers }, () => 'kv_producer' as const),
    ...Array.from({ length: options.consumers }, () => 'kv_consumer' as const),
  ];
  const groups = Array.from({ length: options.processes }, (_, group) =>
    roles.filter((_role, index) => index % options.processes === group),
  );
  return Promise.all(
    groups.map(async (group) => spawnFakeEngines(await fakeEnginesOf(group, discoveryPort))),
  );
}

async function fakeEnginesOf(
  roles: readonly ('kv_producer' | 'kv_consumer')[],
  discoveryPort: number,
): Promise<FakeEngineProcessOptions[]> {
  const ports = await freePorts(2 * roles.length);
  return roles.map((role, index) => {
    const [httpPort, port] = [ports[2 * index]!, ports[2 * index + 1]!];
    const rest = {
      sendType: 'PUT_ASYNC',
      transport: 'auto',
      blockMs: 1,
      tokenMs: 1,
      deadlines: DEADLINES,
    } as const;
    return { role, httpPort, port, doorPort: port, discoveryPort, ...rest };
  });
}

/** Each second two processes with a P and a D each join, and of those that have joined one drains and one crashes. */
class Churn {
  readonly children: readonly ChildProcess[];
  readonly counts = { joined: 0, drained: 0, crashed: 0 };
  readonly #discoveryPort: number;

  private constructor(children: readonly ChildProcess[], discoveryPort: number) {
    this.children = children;
    this.#discoveryPort = discoveryPort;
  }

  /** Processes for `seconds` seconds: starting one takes longer than a second of a busy machine has for it. */
  static async prepare(seconds: number, discoveryPort: number): Promise<Churn> {
    const children = await Promise.all(Array.from({ length: 2 * seconds }, () => spawnWaiting()));
    return new Churn(children, discoveryPort);
  }

  async run(): Promise<void> {
    const leaving: Promise<void>[] = [];
    for (let next = 0; next + 1 < this.children.length; next += 2) {
      const second = sleep(1000);
      const [drains, crashes] = [this.children[next]!, this.children[next + 1]!];
      await Promise.all([this.#join(drains), this.#join(crashes)]);
      await second;
      leaving.push(this.#leave(drains, 'SIGTERM'), this.#leave(crashes, 'SIGKILL'));
    }
    await Promise.all(leaving);
  }

  async #join(child: ChildProcess): Promise<void> {
    await startFakeEngines(child, await fakeEnginesOf(['kv_producer', 'kv_consumer'], this.#discoveryPort));
    this.counts.joined += 1;
  }

  async #leave(child: ChildProcess, signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
    this.counts[signal === 'SIGTERM' ? 'drained' : 'crashed'] += 1;
  }
}

class Load {
  readonly #proxy: SvcProcess;
  readonly #times: number[] = [];
  #failed = 0;
  #wrong = 0;
  #isStopped = false;

  constructor(proxy: SvcProcess) {
    this.#proxy = proxy;
  }

  async run(atOnce: number): Promise<void> {
    await Promise.all(Array.from({ length: atOnce }, (_, worker) => this.#work(worker)));
  }

  stop(): void {
    this.#isStopped = true;
  }

  report(): Pick<ChurnReport, 'requests' | 'failed' | 'wrong' | 'p50Ms' | 'p99Ms'> {
    const sorted = this.#times.toSorted((a, b) => a - b);
    const at = (share: number): number => sorted[Math.floor(share * sorted.length)] ?? Number.NaN;
    const requests = sorted.length + this.#failed;
    return { requests, failed: this.#failed, wrong: this.#wrong, p50Ms: at(0.5), p99Ms: at(0.99) };
  }

  async #work(worker: number): Promise<void> {
    for (let round = 0; !this.#isStopped; round += 1) {
      const prompt = Array.from(
        { length: PROMPT_TOKENS },
        (_, index) => (worker * 977 + round * 31 + index) % 50_000,
      );
      const startedAt = performance.now();
      const text = await this.#ask(prompt).catch(() => null);
      if (text === null) this.#failed += 1;
      else this.#times.push(performance.now() - startedAt);
      const expected = expectedTokens(prompt, ANSWER_TOKENS)
        .map((token) => ` ${token}`)
        .join('');
      if (text !== null && text !== expected) this.#wrong += 1;
    }
  }

  async #ask(prompt: readonly number[]): Promise<string> {
    const response = await fetch(`${this.#proxy.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ prompt, max_tokens: ANSWER_TOKENS, temperature: 0 }),
      signal: AbortSignal.timeout(REQUEST_DEADLINE_MS),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(text);
    return JSON.parse(text).choices[0].text;
  }
}

function residentBytes(pid: number): number {
  const pages = Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1]);
  return pages * 4096;
}

function openSockets(pid: number): number {
  const folder = `/proc/${pid}/fd`;
  return readdirSync(folder).filter((fd) => {
    try {
      return readlinkSync(`${folder}/${fd}`).startsWith('socket:');
    } catch {
      return false;
    }
  }).length;
}
