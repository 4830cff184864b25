// What the proxy costs: requests through it against the same requests sent to the instance itself, which answers at once
// and lives in a process of its own, as the proxy does.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { Pool } from 'undici';
import { readInstances } from '../test/helpers/cluster.ts';
import { freePorts } from '../test/helpers/svc-process.ts';
import { type Figure, median, type Section } from './report.ts';
import { spawnServer } from './spawn-server.ts';
import { cpuSince, threadTimes } from './thread-cpu.ts';

const NUM_REQUESTS = 2000;
const WARM_UPS = 4;
const NUM_STREAMS = 32;
const NUM_TOKENS = 1000;
const START_DEADLINE_MS = 20_000;
const BODY = { model: 'fake', prompt: 'Once upon a time. '.repeat(16), max_tokens: 16, temperature: 0 };

export async function proxySection(): Promise<Section> {
  const [port = 0, discoveryPort = 0, ofP = 0, ofD = 0] = await freePorts(4);
  const listens = ['--port', String(port), '--discovery-port', String(discoveryPort), '--log-level', 'error'];
  const proxy = spawn(process.execPath, ['dist/cli/main.js', 'proxy', ...listens], { stdio: 'ignore' });
  const children = [proxy];
  try {
    const proxied = `http://127.0.0.1:${port}`;
    children.push(await spawnFake('D', ofD, discoveryPort));
    await untilKnown(proxied, 1);
    const direct = await latencies(`http://127.0.0.1:${ofD}`);
    const alone = await costsOf(proxy, proxied);
    const relay = await spawnServer('bench/relay-process.ts', [ofD]);
    children.push(relay.child);
    const least = await costsOf(relay.child, relay.url);
    children.push(await spawnFake('P', ofP, discoveryPort));
    await untilKnown(proxied, 2);
    const pair = await costsOf(proxy, proxied);
    const added = (costs: Costs): number => costs.latencyMicros - 1000 * median(direct);
    return {
      title: 'Proxy, instances that answer at once',
      figures: [
        figure('latency of the instance itself, p50', 1000 * median(direct), null, null),
        figure('added by the proxy, D alone, p50', added(alone), added(least), '<= 200'),
        figure('added by the proxy and the leg to P, p50', added(pair), null, null),
        figure('CPU a request, D alone', alone.requestMicros, least.requestMicros, '<= 100'),
        figure('CPU a request, P and D', pair.requestMicros, null, null),
        figure(`CPU a streamed token`, alone.tokenMicros, least.tokenMicros, '<= 5'),
      ],
      notes: [
        `CPU: all threads of the process, ${NUM_STREAMS} requests at a time. The limit is a process that only passes the bytes ` +
          'between two sockets.',
      ],
    };
  } finally {
    for (const child of children) child.kill('SIGKILL');
  }
}

interface Costs {
  /** Of requests one after the other, p50. */
  readonly latencyMicros: number;
  /** CPU, of requests and of streamed tokens that are many at a time. */
  readonly requestMicros: number;
  readonly tokenMicros: number;
}

/** What `child`, which answers at `url`, takes. */
async function costsOf(child: ChildProcess, url: string): Promise<Costs> {
  const latency = median(await latencies(url));
  const requestMicros = await measured(child, () => requests(url));
  const tokenMicros = await measured(child, () => streams(url));
  return {
    latencyMicros: 1000 * latency,
    requestMicros: requestMicros / NUM_REQUESTS,
    tokenMicros: tokenMicros / (NUM_STREAMS * NUM_TOKENS),
  };
}

function figure(name: string, value: number, limit: number | null, goal: string | null): Figure {
  return { name, value, unit: 'us', limit, goal };
}

async function spawnFake(type: 'P' | 'D', httpPort: number, discoveryPort: number): Promise<ChildProcess> {
  const options = JSON.stringify({ type, httpPort, discovery: `127.0.0.1:${discoveryPort}` });
  const args = ['--import', 'tsx', 'test/helpers/fake-instance-process.ts', options];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout!, 'data');
  return child;
}

async function untilKnown(url: string, count: number): Promise<void> {
  const deadline = performance.now() + START_DEADLINE_MS;
  while ((await readInstances(url)).length < count) {
    if (performance.now() > deadline) throw new Error(`the proxy at ${url} knows too few instances`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Milliseconds of requests that are sent one after the other, behind as many that warm up. */
async function latencies(url: string): Promise<number[]> {
  const pool = new Pool(url, { connections: 1 });
  const took: number[] = [];
  for (let round = 0; round < 2 * NUM_REQUESTS; round += 1) {
    const startedAt = performance.now();
    await (await post(pool, BODY)).text();
    took.push(performance.now() - startedAt);
  }
  await pool.close();
  return took.slice(NUM_REQUESTS);
}

async function requests(url: string): Promise<void> {
  const pool = new Pool(url, { connections: NUM_STREAMS });
  let left = NUM_REQUESTS;
  const worker = async (): Promise<void> => {
    while (left-- > 0) await (await post(pool, BODY)).text();
  };
  await Promise.all(Array.from({ length: NUM_STREAMS }, worker));
  await pool.close();
}

async function streams(url: string): Promise<void> {
  const pool = new Pool(url, { connections: NUM_STREAMS });
  const body = { ...BODY, max_tokens: NUM_TOKENS, stream: true };
  await Promise.all(
    Array.from({ length: NUM_STREAMS }, async () => (await post(pool, body)).dump({ limit: 2 ** 30 })),
  );
  await pool.close();
}

async function post(pool: Pool, body: object) {
  const headers = { 'content-type': 'application/json' };
  const answered = await pool.request({
    method: 'POST',
    path: '/v1/completions',
    headers,
    body: JSON.stringify(body),
  });
  if (answered.statusCode !== 200)
    throw new Error(`status ${answered.statusCode}: ${await answered.body.text()}`);
  return answered.body;
}

/** Microseconds of CPU of `work`, behind as much of it as the compiler of the process needs to see. */
async function measured({ pid }: ChildProcess, work: () => Promise<void>): Promise<number> {
  for (let round = 0; round < WARM_UPS; round += 1) await work();
  const before = threadTimes(pid!);
  await work();
  const { main, kernels, engine, helpers } = cpuSince(before, pid!);
  return 1e6 * (main + kernels + engine + helpers);
}
