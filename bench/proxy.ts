// What the proxy costs: the same requests directly and through it, in one run, against an instance that answers at once.
// Latency is that of one request after the other; CPU is the proxy's own, all its threads, at some requests at a time.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import { freePort } from '../test/helpers/svc-process.ts';
import { type Figure, median, type Section } from './report.ts';

const NUM_WARM = 2000;
const NUM_LATENCY = 3000;
const NUM_CPU = 6000;
const AT_ONCE = 16;
const NUM_STREAMS = 32;
const STREAM_TOKENS = 400;
const TOKEN_MS = 5;
const START_DEADLINE_MS = 20_000;

const SHORT = JSON.stringify({ model: 'bench', prompt: 'Once upon a time', max_tokens: 2, temperature: 0 });
const LONG = JSON.stringify({
  model: 'bench',
  prompt: 'Once upon a time '.repeat(128),
  max_tokens: 2,
  temperature: 0,
});
const STREAM = JSON.stringify({ model: 'bench', prompt: 'Once', temperature: 0, stream: true });

interface Setup {
  readonly proxy: ChildProcess;
  readonly instance: ChildProcess;
  readonly direct: Pool;
  readonly proxied: Pool;
}

export async function proxySection(): Promise<Section> {
  const setup = await start();
  try {
    const figures = [
      ...(await measureLatency(setup)),
      ...(await measureCpu(setup)),
      await measureTokens(setup),
    ];
    return {
      title: 'Proxy',
      figures,
      notes: [
        'Latency: median of the time through the proxy less that of the same exchanges made directly (one with D, or one ' +
          'with P and one with D behind it). The instance answers at once, so that nothing hides the cost.',
      ],
    };
  } finally {
    await Promise.all([setup.direct.destroy(), setup.proxied.destroy()]);
    setup.proxy.kill('SIGTERM');
    setup.instance.kill('SIGKILL');
    await once(setup.proxy, 'exit');
  }
}

async function start(): Promise<Setup> {
  const [port, discoveryPort] = [await freePort(), await freePort()];
  const ports = ['--port', String(port), '--discovery-port', String(discoveryPort)];
  const proxy = spawn(process.execPath, ['dist/cli/main.js', 'proxy', ...ports], { stdio: 'ignore' });
  const instance = spawn(
    process.execPath,
    [
      '--import',
      'tsx',
      'bench/proxy-instance.ts',
      `127.0.0.1:${discoveryPort}`,
      `${STREAM_TOKENS}`,
      `${TOKEN_MS}`,
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  if (instance.stdout === null) throw new Error('the instance has no output');
  const [line] = await once(instance.stdout, 'data');
  const options = { connections: 256, pipelining: 1 };
  const direct = new Pool(`http://127.0.0.1:${Number(String(line))}`, options);
  const proxied = new Pool(`http://127.0.0.1:${port}`, options);
  await untilBothAreKnown(port);
  return { proxy, instance, direct, proxied };
}

async function untilBothAreKnown(port: number): Promise<void> {
  const deadline = performance.now() + START_DEADLINE_MS;
  while (performance.now() < deadline) {
    const health = await fetch(`http://127.0.0.1:${port}/health`).then(
      (response) => response.text(),
      () => '',
    );
    if (health.includes('"prefill":1,"decode":1')) return;
    await sleep(50);
  }
  throw new Error('the instance has not joined the proxy');
}

/** The ways take turns, so that a change of the machine meets all of them. */
async function measureLatency({ direct, proxied }: Setup): Promise<Figure[]> {
  const ways = {
    one: () => post(direct, SHORT),
    oneProxied: () => post(proxied, SHORT),
    two: async () => {
      await post(direct, LONG);
      await post(direct, LONG);
    },
    twoProxied: () => post(proxied, LONG),
  };
  for (const way of Object.values(ways)) for (let index = 0; index < NUM_WARM; index += 1) await way();
  const times = { one: [], oneProxied: [], two: [], twoProxied: [] } as Record<keyof typeof ways, number[]>;
  for (let index = 0; index < NUM_LATENCY; index += 1) {
    for (const name of ['one', 'oneProxied', 'two', 'twoProxied'] as const) {
      const startedAt = performance.now();
      await ways[name]();
      times[name].push(1000 * (performance.now() - startedAt));
    }
  }
  const micros = { unit: 'us', limit: null };
  const [one, oneProxied, two, twoProxied] = [times.one, times.oneProxied, times.two, times.twoProxied].map(
    median,
  );
  return [
    { name: 'D directly: p50', value: one ?? Number.NaN, goal: null, ...micros },
    {
      name: 'D alone through the proxy: added p50',
      value: (oneProxied ?? 0) - (one ?? 0),
      goal: '<= 200',
      ...micros,
    },
    {
      name: 'P and D through the proxy: added p50',
      value: (twoProxied ?? 0) - (two ?? 0),
      goal: '<= 200',
      ...micros,
    },
  ];
}

async function measureCpu({ proxy, proxied }: Setup): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const [name, body] of [
    ['D alone', SHORT],
    ['P and D', LONG],
  ] as const) {
    const before = cpuMicros(proxy.pid);
    const worker = async (): Promise<void> => {
      for (let index = 0; index < NUM_CPU / AT_ONCE; index += 1) await post(proxied, body);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    const value = (cpuMicros(proxy.pid) - before) / NUM_CPU;
    figures.push({
      name: `${name}: CPU of the proxy`,
      value,
      unit: 'us/request',
      limit: null,
      goal: '<= 100',
    });
  }
  return figures;
}

/** Tokens come one by one, as they do from a model. */
async function measureTokens({ proxy, proxied }: Setup): Promise<Figure> {
  const before = cpuMicros(proxy.pid);
  await Promise.all(Array.from({ length: NUM_STREAMS }, () => post(proxied, STREAM)));
  const value = (cpuMicros(proxy.pid) - before) / (NUM_STREAMS * STREAM_TOKENS);
  const name = `${NUM_STREAMS} streams, ${1000 / TOKEN_MS} tokens/s each: CPU of the proxy`;
  return { name, value, unit: 'us/token', limit: null, goal: '<= 5' };
}

async function post(pool: Pool, body: string): Promise<void> {
  const answer = await pool.request({
    method: 'POST',
    path: '/v1/completions',
    headers: { 'content-type': 'application/json' },
    body,
  });
  if (answer.statusCode !== 200) throw new Error(`status ${answer.statusCode}: ${await answer.body.text()}`);
  await answer.body.dump({ limit: Number.MAX_SAFE_INTEGER });
}

/** CPU time of all threads of a process; the kernel counts it in nanoseconds. */
function cpuMicros(pid: number | undefined): number {
  const threads = readdirSync(`/proc/${pid}/task`);
  const nanos = threads.map((thread) =>
    Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]),
  );
  return nanos.reduce((sum, value) => sum + value, 0) / 1000;
}
