// A line of statistics in the log, every few seconds while there is work.

import type { FastifyBaseLogger } from 'fastify';
import type { EngineStats, InferenceEngine } from '../engine/inference-engine.ts';

/** @returns what ends it. */
export function logStats(engine: InferenceEngine, logger: FastifyBaseLogger, intervalMs: number): () => void {
  let before: EngineStats | null = null;
  let readAt = performance.now();
  const report = async (): Promise<void> => {
    if (!engine.isAlive) return;
    const stats = await engine.stats();
    const now = performance.now();
    const line = statsLine(before, stats, (now - readAt) / 1000);
    if (line !== null) logger.info(line);
    before = stats;
    readAt = now;
  };
  // An engine that dies over it is reported elsewhere.
  const timer = setInterval(() => void report().catch(() => {}), intervalMs);
  timer.unref();
  return () => clearInterval(timer);
}

/** The work since `before`, which was so many seconds ago; null where there was none and none is waiting. */
export function statsLine(before: EngineStats | null, stats: EngineStats, seconds: number): string | null {
  const since = (count: (stats: EngineStats) => number): number =>
    count(stats) - (before === null ? 0 : count(before));
  const promptTokens = since((at) => at.promptTokens);
  const generationTokens = since((at) => at.generationTokens);
  const waiting = stats.waiting + stats.loading + stats.heldBack;
  if (promptTokens + generationTokens + stats.running + waiting === 0) return null;
  const preemptions = since((at) => at.preemptions);
  const queries = since((at) => at.prefixCacheQueries);
  const hits = since((at) => at.prefixCacheHits);
  const asked = since((at) => at.externalCacheQueries);
  const came = since((at) => at.externalCacheHits);
  const drafts = since((at) => at.speculation?.drafts ?? 0);
  const draftTokens = since((at) => at.speculation?.draftTokens ?? 0);
  const accepted = since((at) => at.speculation?.acceptedTokens ?? 0);
  return [
    `prompt throughput: ${(promptTokens / seconds).toFixed(1)} tokens/s`,
    `generation throughput: ${(generationTokens / seconds).toFixed(1)} tokens/s`,
    `running: ${stats.running}`,
    `waiting: ${waiting}`,
    ...(preemptions > 0 ? [`preemptions: ${preemptions}`] : []),
    `KV cache usage: ${percent(stats.numBlocks - stats.freeBlocks, stats.numBlocks)}`,
    ...(queries > 0 ? [`prefix cache hit rate: ${percent(hits, queries)}`] : []),
    ...(asked > 0 ? [`external prefix cache hit rate: ${percent(came, asked)}`] : []),
    ...(draftTokens > 0
      ? [
          `draft acceptance rate: ${percent(accepted, draftTokens)}`,
          `mean acceptance length: ${(1 + accepted / drafts).toFixed(2)}`,
        ]
      : []),
  ].join(', ');
}

function percent(part: number, whole: number): string {
  return `${((100 * part) / whole).toFixed(1)}%`;
}
