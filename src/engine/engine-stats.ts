// Counters and gauges of an engine, and of several together.

import type { KvTransferStats } from '../kv-transfer/connector.ts';
import type { SpeculationStats } from '../speculation/speculator.ts';
import type { CoreStats } from './messages.ts';

export interface EngineStats extends CoreStats {
  /** Samples that wait on the main thread for another one of their request to end. */
  readonly heldBack: number;
  /** Null where no KV blocks are exchanged. */
  readonly kvTransfer: KvTransferStats | null;
}

/** @param engines at least one; where blocks are exchanged, one. */
export function sumOfStats(engines: readonly EngineStats[]): EngineStats {
  return engines.reduce((sum, each) => ({
    ...addAll(sum, each, COUNTS),
    busySeconds: sum.busySeconds === null ? null : sum.busySeconds + (each.busySeconds ?? 0),
    speculation: sumOfSpeculation(sum.speculation, each.speculation),
    runningAdapters: union(sum.runningAdapters, each.runningAdapters),
    waitingAdapters: union(sum.waitingAdapters, each.waitingAdapters),
  }));
}

const COUNTS = [
  'running',
  'waiting',
  'loading',
  'heldBack',
  'freeBlocks',
  'heldBlocks',
  'numBlocks',
  'preemptions',
  'prefixCacheQueries',
  'prefixCacheHits',
  'externalCacheQueries',
  'externalCacheHits',
  'promptTokens',
  'cachedPromptTokens',
  'loadedPromptTokens',
  'generationTokens',
] as const;

/** `sum` with the counts of `each` added. */
function addAll<K extends string, S extends Readonly<Record<K, number>>>(
  sum: S,
  each: Readonly<Record<K, number>>,
  counts: readonly K[],
): S {
  const added = counts.map((count) => [count, sum[count] + each[count]] as const);
  return { ...sum, ...Object.fromEntries(added) };
}

function sumOfSpeculation(
  sum: SpeculationStats | null,
  each: SpeculationStats | null,
): SpeculationStats | null {
  if (sum === null || each === null) return sum ?? each;
  const { acceptedPerPosition: positions } = sum;
  return {
    ...addAll(sum, each, ['drafts', 'draftTokens', 'acceptedTokens']),
    acceptedPerPosition: positions.map((count, at) => count + (each.acceptedPerPosition[at] ?? 0)),
  };
}

function union(some: readonly number[], others: readonly number[]): number[] {
  return [...new Set([...some, ...others])];
}
