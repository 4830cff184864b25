// What each of several engines of a process gets of the machine: an equal share of its memory. Their threads share it as ranks do.

import type { EngineConfig } from '../config/engine-config.ts';

/**
 * The configuration of each engine, by rank; the one that is given where there is one engine.
 * @param freeMemory bytes that are free before any of them has begun.
 */
export function engineShares(config: EngineConfig, freeMemory: () => number): EngineConfig[] {
  const { dataParallelSize: size, kvCacheMemoryBytes: kvBytes } = config;
  if (size === 1) return [config];
  const memoryBytes = Math.floor(freeMemory() / size);
  return Array.from({ length: size }, (_, rank) => ({
    ...config,
    kvCacheMemoryBytes: kvBytes === null ? null : Math.floor(kvBytes / size),
    share: { rank, memoryBytes },
  }));
}
