// Replays recorded conversations on the 0.5B shape with and without the prefix cache: what is found again against what
// could be with infinite memory, and how long first tokens take.

import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { InferenceEngine } from '../src/engine/inference-engine.ts';
import { resolveSamplingParams } from '../src/sampling/sampling-params.ts';
import { withRandomEngines } from './random-engine.ts';
import type { Figure, Section } from './report.ts';

const TRACE = resolve('../shared/fixtures/traces/mooncake_conversation_trace.jsonl');
const NUM_REQUESTS = 200;
/** Lengths of the trace are divided by this; its blocks of 512 tokens become blocks of 16. */
const SHRINK = 32;
const BLOCK_SIZE = 512 / SHRINK;

const line = z.object({
  timestamp: z.number(),
  input_length: z.int(),
  output_length: z.int(),
  hash_ids: z.array(z.int()),
});

interface TracedRequest {
  readonly atMs: number;
  readonly tokenIds: readonly number[];
  readonly maxTokens: number;
}

interface Outcome {
  readonly firstTokenMs: number;
  readonly numCachedTokens: number;
}

export async function traceSection(): Promise<Section> {
  const title = `Replay of ${NUM_REQUESTS} conversations, lengths divided by ${SHRINK}, qwen2.5-0.5b`;
  if (!existsSync(TRACE)) return { title, figures: [], notes: ['The trace is not here.'] };
  const config = { maxModelLen: 4096, kvCacheMemoryBytes: 2 ** 31, blockSize: BLOCK_SIZE };
  const configs = [true, false].map((enablePrefixCaching) => ({ ...config, enablePrefixCaching }));
  const figures = await withRandomEngines('qwen2.5-0.5b', configs, async (engine, index) => {
    const requests = readTrace(engine.info.vocabSize);
    const startedAt = performance.now();
    const outcomes = await Promise.all(requests.map((request) => replay(engine, request, startedAt)));
    return describe(index === 0 ? 'prefix cache' : 'no prefix cache', requests, outcomes);
  });
  return { title, figures: figures.flat() };
}

function readTrace(vocabSize: number): TracedRequest[] {
  const lines = readFileSync(TRACE, 'utf8').split('\n').slice(0, NUM_REQUESTS);
  return lines.map((text) => {
    const { timestamp, input_length, output_length, hash_ids } = line.parse(JSON.parse(text));
    const tokenIds = hash_ids.flatMap((hash) => blockTokens(hash, vocabSize));
    return {
      atMs: timestamp,
      tokenIds: tokenIds.slice(0, Math.max(1, Math.ceil(input_length / SHRINK))),
      maxTokens: Math.max(1, Math.round(output_length / SHRINK)),
    };
  });
}

/** Equal hashes of the trace become equal blocks of tokens. */
function blockTokens(hash: number, vocabSize: number): number[] {
  return Array.from({ length: BLOCK_SIZE }, (_, index) => (hash * 7919 + index * 104729) % vocabSize);
}

async function replay(engine: InferenceEngine, request: TracedRequest, startedAt: number): Promise<Outcome> {
  await sleep(Math.max(0, startedAt + request.atMs - performance.now()));
  const sentAt = performance.now();
  const params = resolveSamplingParams({ temperature: 0, max_tokens: request.maxTokens, ignore_eos: true });
  const prepared = await engine.prepare({ tokenIds: request.tokenIds }, params);
  let outcome: Outcome | null = null;
  for await (const delta of engine.generate(prepared)) {
    outcome ??= { firstTokenMs: performance.now() - sentAt, numCachedTokens: delta.numCachedTokens };
  }
  if (outcome === null) throw new Error('a request ended without a token');
  return outcome;
}

function describe(name: string, requests: readonly TracedRequest[], outcomes: readonly Outcome[]): Figure[] {
  const sorted = outcomes.map(({ firstTokenMs }) => firstTokenMs).toSorted((a, b) => a - b);
  const at = (share: number): number =>
    sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]!;
  const cached = outcomes.reduce((sum, { numCachedTokens }) => sum + numCachedTokens, 0);
  const watched = { limit: null, goal: null };
  return [
    {
      name: `${name}: tokens found again`,
      value: cached,
      unit: 'tokens',
      limit: bestPossible(requests),
      goal: null,
    },
    { name: `${name}: first token, p50`, value: at(0.5), unit: 'ms', ...watched },
    { name: `${name}: first token, p99`, value: at(0.99), unit: 'ms', ...watched },
  ];
}

/** Tokens that a cache which never forgets would find, the last token of each prompt aside. */
function bestPossible(requests: readonly TracedRequest[]): number {
  const seen = new Set<string>();
  let found = 0;
  for (const { tokenIds } of requests) {
    const numBlocks = Math.floor((tokenIds.length - 1) / BLOCK_SIZE);
    let isHit = true;
    for (let index = 0; index < numBlocks; index += 1) {
      const prefix = tokenIds.slice(0, (index + 1) * BLOCK_SIZE).join();
      isHit &&= seen.has(prefix);
      if (isHit) found += BLOCK_SIZE;
    }
    for (let end = BLOCK_SIZE; end <= tokenIds.length; end += BLOCK_SIZE)
      seen.add(tokenIds.slice(0, end).join());
  }
  return found;
}
