// Many streaming clients for a minute, of which some hang up at any moment: no error, and nothing kept for those that are gone.

import { readdirSync, readFileSync } from 'node:fs';
import { Agent, request as httpRequest } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { modelFolder } from '../src/models/model-folder.ts';
import { uniform } from '../src/sampling/random-stream.ts';
import { readMetrics } from '../test/helpers/cluster.ts';
import { type SvcProcess, startServeProcess } from '../test/helpers/svc-process.ts';
import { figureOf, type Section } from './report.ts';

const NUM_CLIENTS = 256;
const SECONDS = 60;
/** Memory is compared over the last of them: until then caches and heaps grow to their size. */
const NUM_PARTS = 3;
const MOST_TOKENS = 96;
/** Of all requests, and when they hang up at the latest. */
const HANG_UP_SHARE = 0.4;
const LATEST_HANG_UP_MS = 3000;
const FREE_DEADLINE_MS = 10_000;
const MOST_GROWTH_MB = 64;
const BLOCKS = 'svc:kv_cache_usage_perc';
/** Blocks of ended requests are kept for their prefixes: a cache of this size is full of them in the first part. */
const KV_CACHE = ['--kv-cache-memory-bytes', '192M'];

/** What comes of one request. */
type Outcome = 'complete' | 'hung up' | 'failed';

export async function hangUpSection(): Promise<Section> {
  const svc = await startServeProcess([await modelFolder(''), ...KV_CACHE]);
  try {
    await startThreads(svc);
    const filesBefore = openFiles(svc);
    const memory = [residentBytes(svc)];
    const counts: Record<Outcome, number> = { complete: 0, 'hung up': 0, failed: 0 };
    const end = performance.now() + SECONDS * 1000;
    const agent = new Agent({ keepAlive: true, maxSockets: NUM_CLIENTS });
    let next = 0;
    const client = async (): Promise<void> => {
      while (performance.now() < end) counts[await ask(svc.url, agent, next++)] += 1;
    };
    const clients = Promise.all(Array.from({ length: NUM_CLIENTS }, client));
    for (let part = 0; part < NUM_PARTS; part += 1) {
      await sleep((SECONDS * 1000) / NUM_PARTS);
      memory.push(residentBytes(svc));
    }
    await clients;
    agent.destroy();
    const freeMs = await untilFree(svc);
    const metrics = await readMetrics(svc.url);
    const megabytes = memory.map((bytes) => bytes / 1e6);
    const growth = megabytes.at(-1)! - megabytes.at(-2)!;
    return {
      title: `${NUM_CLIENTS} streaming clients for ${SECONDS} s that hang up at random, svc-chat`,
      figures: [
        figureOf('streams begun', next, 'requests'),
        figureOf('complete streams', counts.complete, 'requests'),
        figureOf('clients that hung up', counts['hung up'], 'requests'),
        figureOf('errors', counts.failed, 'requests', '0'),
        figureOf('output', (metrics.get('svc:generation_tokens_total') ?? 0) / SECONDS, 'tokens/s'),
        figureOf('memory before the first client', megabytes[0]!, 'MB'),
        figureOf('memory at the end', megabytes.at(-1)!, 'MB'),
        figureOf('memory, last third', growth, 'MB more', `< ${MOST_GROWTH_MB}`),
        figureOf('last client gone until nothing runs or waits', freeMs, 'ms', '< 1000'),
        figureOf('share of the KV blocks in use at the end', metrics.get(BLOCKS) ?? Number.NaN, '', '0'),
        figureOf('sockets and files left open', openFiles(svc) - filesBefore, '', '<= 1'),
      ],
    };
  } finally {
    await svc.stop();
  }
}

function ask(url: string, agent: Agent, index: number): Promise<Outcome> {
  const random = (draw: number): number => uniform(17, index, draw);
  const prompt = 'once there was a little dog who went to the forest '.repeat(1 + (index % 4)) + index;
  const max_tokens = 1 + Math.floor(random(0) * MOST_TOKENS);
  const body = JSON.stringify({ prompt, max_tokens, seed: index, ignore_eos: true, stream: true });
  return new Promise((resolve) => {
    let hangUp: NodeJS.Timeout | undefined;
    let received = '';
    const over = (outcome: Outcome): void => {
      clearTimeout(hangUp);
      resolve(outcome);
    };
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
    const sent = httpRequest(`${url}/v1/completions`, { agent, method: 'POST', headers }, (response) => {
      response.setEncoding('utf8').on('data', (text: string) => {
        received += text;
      });
      response.on('error', () => over('failed'));
      response.on('end', () => {
        const isWhole = response.statusCode === 200 && received.endsWith('data: [DONE]\n\n');
        over(isWhole && !received.includes('"error"') ? 'complete' : 'failed');
      });
    });
    sent.on('error', () => over('failed'));
    sent.end(body);
    if (random(1) >= HANG_UP_SHARE) return;
    hangUp = setTimeout(() => {
      over('hung up');
      sent.destroy();
    }, random(2) * LATEST_HANG_UP_MS);
  });
}

/** A constraint starts the last thread that a server has, whose files are no leak. */
async function startThreads({ url }: SvcProcess): Promise<void> {
  const body = { prompt: 'once', max_tokens: 4, structured_outputs: { choice: ['upon', 'more'] } };
  const answer = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`the first request failed: ${await answer.text()}`);
}

/** Milliseconds. */
async function untilFree({ url }: SvcProcess): Promise<number> {
  const startedAt = performance.now();
  const isBusy = async (): Promise<boolean> => {
    const metrics = await readMetrics(url);
    return ['running', 'waiting'].some((state) => (metrics.get(`svc:num_requests_${state}`) ?? 0) > 0);
  };
  while ((await isBusy()) && performance.now() - startedAt < FREE_DEADLINE_MS) await sleep(20);
  return performance.now() - startedAt;
}

function residentBytes({ child: { pid } }: SvcProcess): number {
  return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024;
}

function openFiles({ child: { pid } }: SvcProcess): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}
