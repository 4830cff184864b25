// How many KV blocks fit: from the options, the model and the memory that is free.

import type { EngineConfig } from '../config/engine-config.ts';
import { ConfigError } from '../errors.ts';
import { longestSequence, mostBlocks } from '../kv-cache/block-groups.ts';
import { kvHeadBytes } from '../ops/dtype.ts';
import { numKvRows, vectorsPerToken } from '../ops/kv-rows.ts';
import type { KvCacheShape } from '../ops/ops.ts';

type BudgetConfig = Pick<
  EngineConfig,
  'kvCacheMemoryBytes' | 'gpuMemoryUtilization' | 'maxNumSeqs' | 'maxNumBatchedTokens' | 'blockSize'
>;

export interface CacheDesign {
  /** Of a cache with one block. */
  readonly shape: KvCacheShape;
  /** [groups] See `BlockGroups`. */
  readonly windows: readonly (number | null)[];
}

/**
 * Blocks for the KV cache: `kvCacheMemoryBytes` exactly, or the `gpuMemoryUtilization` share of what is free once
 * the weights are loaded, never more than `maxNumSeqs` requests of `maxModelLen` tokens could use.
 * @param freeBytes of the backend
 * @throws ConfigError where not even one request of `maxModelLen` tokens fits.
 */
export function chooseNumBlocks(
  config: BudgetConfig,
  design: CacheDesign,
  maxModelLen: number,
  freeBytes: number,
): number {
  const { blockSize, maxNumBatchedTokens } = config;
  const groups = { blockSize, windows: design.windows };
  const perRequest = mostBlocks(groups, maxModelLen, maxNumBatchedTokens);
  const blockBytes = kvBlockBytes(design.shape);
  const fitting = Math.floor(budgetBytes(config, freeBytes) / blockBytes);
  const numBlocks =
    config.kvCacheMemoryBytes === null ? Math.min(fitting, perRequest * config.maxNumSeqs) : fitting;
  if (numBlocks < perRequest) {
    const room = longestSequence(groups, Math.max(0, numBlocks), maxNumBatchedTokens);
    throw new ConfigError(
      `the KV cache has room for ${room} tokens, one request of max_model_len needs ` +
        `${maxModelLen}: raise --kv-cache-memory-bytes to at least ${perRequest * blockBytes} ` +
        `(or --gpu-memory-utilization)${room === 0 ? '' : `, or lower --max-model-len to at most ${room}`}`,
      { param: 'kv-cache-memory-bytes' },
    );
  }
  return numBlocks;
}

/**
 * The longest sequence that fits into the same KV cache, up to the limit of the model; one block at least, for the error above.
 */
export function longestFitting(
  config: BudgetConfig,
  { shape, windows }: CacheDesign,
  modelLimit: number,
  freeBytes: number,
): number {
  const { blockSize, maxNumBatchedTokens } = config;
  const numBlocks = Math.floor(budgetBytes(config, freeBytes) / kvBlockBytes(shape));
  const longest = longestSequence({ blockSize, windows }, Math.max(0, numBlocks), maxNumBatchedTokens);
  return Math.min(modelLimit, Math.max(blockSize, longest));
}

function budgetBytes({ kvCacheMemoryBytes, gpuMemoryUtilization }: BudgetConfig, freeBytes: number): number {
  return kvCacheMemoryBytes ?? freeBytes * gpuMemoryUtilization;
}

/** Bytes of one block over all its rows, without what a backend adds to align it. */
export function kvBlockBytes(shape: KvCacheShape): number {
  return (
    vectorsPerToken(shape) *
    numKvRows(shape) *
    shape.blockSize *
    shape.kvHeads *
    kvHeadBytes(shape.dtype, shape.headDim)
  );
}
