// Prefill and decode on two instances, real processes on one machine: how much of the time to the first token is spent
// on moving the KV cache, and what the modes of transfer give under load.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeRequestId } from '../src/cluster/request-id.ts';
import type { SendType, TransportChoice } from '../src/config/kv-transfer-config.ts';
import { freePort } from '../test/helpers/svc-process.ts';
import { writeRandomModel } from './random-model.ts';
import { type Figure, median, type Section } from './report.ts';

const PROMPT_TOKENS = 2048;
const REPEATS = 3;
/** Under load: short prompts, so that transfers are many. */
const LOAD = { requests: 24, atOnce: 6, promptTokens: 192, outputTokens: 16 };
const LOAD_REPEATS = 3;
const START_DEADLINE_MS = 120_000;

interface Instance {
  readonly child: ChildProcess;
  readonly url: string;
  readonly kvAddress: string;
}

interface Pair {
  readonly producer: Instance;
  readonly consumer: Instance;
}

export async function disaggregatedSection(): Promise<Section> {
  const folder = mkdtempSync(join(os.tmpdir(), 'svc-bench-'));
  try {
    writeRandomModel(folder, 'qwen2.5-0.5b');
    const figures: Figure[] = [];
    for (const transport of ['shm', 'tcp'] as const) {
      figures.push(
        ...(await withPair(folder, 'PUT_ASYNC', transport, (pair) => measureLatency(pair, transport))),
      );
    }
    figures.push(...(await measureModes(folder)));
    return { title: `Disaggregated, qwen2.5-0.5b, 1 P and 1 D on this machine`, figures, notes: NOTES };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const NOTES = [
  'Waiting for the KV cache: the first token from D with the blocks coming from P, less the same with the prompt in the ' +
    "prefix cache of D. The share is that of the whole time to the first token, P's part included.",
];

async function measureLatency(pair: Pair, transport: TransportChoice): Promise<Figure[]> {
  await throughBoth(pair, promptOf(0, 64), 1);
  const runs: { readonly wait: number; readonly total: number }[] = [];
  for (let repeat = 1; repeat <= REPEATS; repeat += 1) {
    const prompt = promptOf(repeat, PROMPT_TOKENS);
    const { prefillMs, decodeMs } = await throughBoth(pair, prompt, 1);
    const { ms: cachedMs } = await complete(pair.consumer.url, prompt, 1, null);
    runs.push({ wait: decodeMs - cachedMs, total: prefillMs + decodeMs });
  }
  const wait = median(runs.map((run) => run.wait));
  const total = median(runs.map((run) => run.total));
  const name = `${transport}, prompt of ${PROMPT_TOKENS}`;
  return [
    { name: `${name}: first token`, value: total, unit: 'ms', limit: null, goal: null },
    { name: `${name}: waiting for the KV cache`, value: wait, unit: 'ms', limit: null, goal: null },
    { name: `${name}: share of it`, value: (100 * wait) / total, unit: '%', limit: null, goal: '<= 5 %' },
  ];
}

/** The modes take turns, so that what else the machine does hits them alike. */
async function measureModes(folder: string): Promise<Figure[]> {
  const modes = ['PUT_ASYNC', 'GET', 'PUT'] as const;
  const rates = new Map<SendType, number[]>(modes.map((mode) => [mode, []]));
  for (let repeat = 0; repeat < LOAD_REPEATS; repeat += 1) {
    for (const mode of modes) {
      rates.get(mode)!.push(await withPair(folder, mode, 'auto', (pair) => measureLoad(pair, repeat)));
    }
  }
  return modes.map((mode) => ({
    name: `${mode}: ${LOAD.requests} requests of ${LOAD.promptTokens} in, ${LOAD.outputTokens} out, ${LOAD.atOnce} at once`,
    value: median(rates.get(mode)!),
    unit: 'tokens/s',
    limit: null,
    goal: 'PUT_ASYNC >= GET >= PUT',
  }));
}

async function measureLoad(pair: Pair, repeat: number): Promise<number> {
  await throughBoth(pair, promptOf(0, 64), 1);
  const queue = Array.from({ length: LOAD.requests }, (_, index) =>
    promptOf(1 + repeat * 1000 + index, LOAD.promptTokens),
  );
  const startedAt = performance.now();
  const worker = async (): Promise<void> => {
    for (let prompt = queue.pop(); prompt !== undefined; prompt = queue.pop()) {
      await throughBoth(pair, prompt, LOAD.outputTokens);
    }
  };
  await Promise.all(Array.from({ length: LOAD.atOnce }, worker));
  return (1000 * LOAD.requests * LOAD.outputTokens) / (performance.now() - startedAt);
}

/** What a proxy does with a request. */
async function throughBoth(
  { producer, consumer }: Pair,
  prompt: readonly number[],
  maxTokens: number,
): Promise<{ readonly prefillMs: number; readonly decodeMs: number }> {
  const id = makeRequestId(producer.kvAddress, consumer.kvAddress);
  const { ms: prefillMs } = await complete(producer.url, prompt, 1, id);
  const { ms: decodeMs } = await complete(consumer.url, prompt, maxTokens, id);
  return { prefillMs, decodeMs };
}

async function complete(
  url: string,
  prompt: readonly number[],
  max_tokens: number,
  requestId: string | null,
): Promise<{ readonly ms: number }> {
  const startedAt = performance.now();
  const response = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(requestId !== null && { 'x-request-id': requestId }) },
    body: JSON.stringify({ prompt, max_tokens, temperature: 0, ignore_eos: true }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`status ${response.status}: ${text}`);
  return { ms: performance.now() - startedAt };
}

async function withPair<T>(
  folder: string,
  sendType: SendType,
  transport: TransportChoice,
  body: (pair: Pair) => Promise<T>,
): Promise<T> {
  const pair = {
    producer: await startInstance(folder, 'kv_producer', sendType, transport),
    consumer: await startInstance(folder, 'kv_consumer', sendType, transport),
  };
  try {
    await untilHealthy(pair.producer.url);
    await untilHealthy(pair.consumer.url);
    return await body(pair);
  } finally {
    for (const { child } of [pair.producer, pair.consumer]) {
      child.kill('SIGTERM');
      await once(child, 'exit');
    }
  }
}

async function startInstance(
  folder: string,
  kv_role: 'kv_producer' | 'kv_consumer',
  send_type: SendType,
  transport: TransportChoice,
): Promise<Instance> {
  const [port, kv_port] = [await freePort(), await freePort()];
  const extra = { send_type, transport, mem_pool_size_gb: 1 };
  const config = { kv_connector: 'P2pNcclConnector', kv_role, kv_port, kv_connector_extra_config: extra };
  const memory = ['--max-model-len', '4096', '--kv-cache-memory-bytes', String(2 ** 29)];
  const address = ['--host', '127.0.0.1', '--port', String(port)];
  const args = ['serve', folder, '--skip-tokenizer-init', ...memory, ...address];
  const transfer = ['--kv-transfer-config', JSON.stringify(config)];
  const child = spawn(process.execPath, ['dist/cli/main.js', ...args, ...transfer], { stdio: 'ignore' });
  return { child, url: `http://127.0.0.1:${port}`, kvAddress: `127.0.0.1:${kv_port}` };
}

async function untilHealthy(url: string): Promise<void> {
  const deadline = performance.now() + START_DEADLINE_MS;
  while (performance.now() < deadline) {
    const response = await fetch(`${url}/health`).catch(() => null);
    await response?.arrayBuffer();
    if (response?.ok) return;
    await sleep(50);
  }
  throw new Error(`${url} was not healthy within ${START_DEADLINE_MS / 1000} s`);
}

/** Token ids that no other prompt begins with. */
function promptOf(seed: number, length: number): number[] {
  return Array.from({ length }, (_, index) => (seed * 7919 + (index + 1) * 104_729) % 150_000);
}
