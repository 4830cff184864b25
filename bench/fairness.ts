// How long a newcomer waits where heavy requests fill all slots, and what it costs those: four requests with many samples of
// one key, then newcomers of the same key and of another one.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { writeTinyModel } from '../test/fixtures/tiny-model.ts';
import { readMetrics } from '../test/helpers/cluster.ts';
import { type SvcProcess, startServeProcess } from '../test/helpers/svc-process.ts';
import { until } from '../test/helpers/until.ts';
import { type Figure, median, type Section } from './report.ts';

const NUM_SLOTS = 8;
const HEAVY = { n: 128, max_tokens: 400 };
const NUM_HEAVY = 4;
const NEWCOMER_TOKENS = 100;
const NUM_NEWCOMERS = 30;
const WINDOW_MS = 4000;
const HEAVY_KEY = 'heavy';
const OTHER_KEY = 'other';

export async function fairnessSection(): Promise<Section> {
  const folder = mkdtempSync(join(os.tmpdir(), 'svc-bench-'));
  writeTinyModel(folder);
  const svc = await startServeProcess([
    folder,
    ...['--max-num-seqs', String(NUM_SLOTS), '--kv-cache-memory-bytes', '64M', '--log-level', 'error'],
    ...['--api-key', HEAVY_KEY, OTHER_KEY],
  ]);
  try {
    return { title: 'Newcomers on a full server', figures: await measure(svc), notes: [NOTE] };
  } finally {
    await svc.stop();
    rmSync(folder, { recursive: true });
  }
}

const NOTE =
  `${NUM_HEAVY} requests of n = ${HEAVY.n} and ${HEAVY.max_tokens} tokens of one key, started anew when they end, on ` +
  `${NUM_SLOTS} slots; newcomers come one after the other, each with ${NEWCOMER_TOKENS} tokens. The limit of a first token is ` +
  'that of the same request on an idle server (median of all); of the throughput of the heavy requests, what they have ' +
  'without newcomers, less one slot of eight.';

async function measure(svc: SvcProcess): Promise<Figure[]> {
  const alone = await newcomers(svc, OTHER_KEY);
  const leave = new AbortController();
  const heavy = Array.from({ length: NUM_HEAVY }, () => keepBusy(svc, leave.signal));
  await until(async () => (await readMetrics(svc.url)).get('svc:num_requests_running') === NUM_SLOTS);
  const undisturbed = async (): Promise<number> =>
    (await tokensPerSecond(svc, () => sleep(WINDOW_MS))).perSecond;
  const without = [await undisturbed()];
  const figures: Figure[] = [];
  for (const [who, key] of [
    ['the same key', HEAVY_KEY],
    ['another key', OTHER_KEY],
  ] as const) {
    let firstTokens: number[] = [];
    const all = await tokensPerSecond(svc, async () => {
      firstTokens = await newcomers(svc, key);
    });
    const ofHeavy = all.perSecond - (NUM_NEWCOMERS * NEWCOMER_TOKENS) / all.seconds;
    // A shared machine's speed changes within seconds: held against the seconds before and after.
    without.push(await undisturbed());
    const around = (without.at(-2)! + without.at(-1)!) / 2;
    figures.push(
      {
        name: `first token of a newcomer of ${who}`,
        value: median(firstTokens),
        unit: 'ms',
        limit: median(alone),
        goal: null,
      },
      {
        name: `heavy requests, with newcomers of ${who}`,
        value: ofHeavy,
        unit: 'tokens/s',
        limit: (around * (NUM_SLOTS - 1)) / NUM_SLOTS,
        goal: '>= 90 %',
      },
    );
  }
  leave.abort();
  await Promise.all(heavy);
  const name = 'heavy requests, without newcomers';
  return [{ name, value: median(without), unit: 'tokens/s', limit: null, goal: null }, ...figures];
}

/** Asks for one heavy request after the other until `signal`. */
async function keepBusy(svc: SvcProcess, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const answered = post(svc, HEAVY_KEY, { ...HEAVY, temperature: 1 }, signal);
    await answered.then((response) => response.arrayBuffer()).catch(() => {});
  }
}

/** Milliseconds to the first token of each. */
async function newcomers(svc: SvcProcess, key: string): Promise<number[]> {
  const firstTokens: number[] = [];
  for (let i = 0; i < NUM_NEWCOMERS; i += 1) {
    const startedAt = performance.now();
    const response = await post(svc, key, { max_tokens: NEWCOMER_TOKENS, stream: true });
    let firstToken = 0;
    for await (const _ of response.body!) firstToken ||= performance.now() - startedAt;
    firstTokens.push(firstToken);
  }
  return firstTokens;
}

/** Tokens that the engine makes while `act` runs. */
async function tokensPerSecond(
  { url }: SvcProcess,
  act: () => Promise<unknown>,
): Promise<{ perSecond: number; seconds: number }> {
  const count = async (): Promise<number> =>
    (await readMetrics(url)).get('svc:generation_tokens_total') ?? Number.NaN;
  const before = await count();
  const startedAt = performance.now();
  await act();
  const seconds = (performance.now() - startedAt) / 1000;
  return { perSecond: ((await count()) - before) / seconds, seconds };
}

async function post(svc: SvcProcess, key: string, body: object, signal?: AbortSignal): Promise<Response> {
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${key}` };
  const asked = JSON.stringify({ prompt: [10, 11, 12], ignore_eos: true, ...body });
  const response = await fetch(`${svc.url}/v1/completions`, {
    method: 'POST',
    headers,
    body: asked,
    signal: signal ?? null,
  });
  if (!response.ok) throw new Error(`status ${response.status}: ${await response.text()}`);
  return response;
}
