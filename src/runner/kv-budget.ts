// How many KV blocks fit: from the options, the model and the memory that is free.

import type { EngineConfig } from '../config/engine-config.ts';
import { ConfigError } from '../errors.ts';
import { kvHeadBytes } from '../ops/dtype.ts';
import type { KvCacheShape } from '../ops/ops.ts';

type BudgetConfig = Pick<
  EngineConfig,
  'kvCacheMemoryBytes' | 'gpuMemoryUtilization' | 'maxNumSeqs' | 'blockSize'
>;

/**
 * Blocks for the KV cache: `kvCacheMemoryBytes` exactly, or the `gpuMemoryUtilization` share of what is free once
 * the weights are loaded, never more than `maxNumSeqs` requests of `maxModelLen` tokens could use.
 * @param shape of a cache with one block
 * @param freeBytes of the backend
 * @throws ConfigError where not even one request of `maxModelLen` tokens fits.
 */
export function chooseNumBlocks(
  config: BudgetConfig,
  shape: KvCacheShape,
  maxModelLen: number,
  freeBytes: number,
): number {
  const perRequest = Math.ceil(maxModelLen / config.blockSize);
  const blockBytes = kvBlockBytes(shape);
  const fitting = Math.floor(budgetBytes(config, freeBytes) / blockBytes);
  const numBlocks =
    config.kvCacheMemoryBytes === null ? Math.min(fitting, perRequest * config.maxNumSeqs) : fitting;
  if (numBlocks < perRequest) {
    const room = Math.max(0, numBlocks * config.blockSize);
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
 * @param shape of a cache with one block
 */
export function longestFitting(
  config: BudgetConfig,
  shape: KvCacheShape,
  modelLimit: number,
  freeBytes: number,
): number {
  const numBlocks = Math.floor(budgetBytes(config, freeBytes) / kvBlockBytes(shape));
  return Math.min(modelLimit, Math.max(1, numBlocks) * config.blockSize);
}

function budgetBytes({ kvCacheMemoryBytes, gpuMemoryUtilization }: BudgetConfig, freeBytes: number): number {
  return kvCacheMemoryBytes ?? freeBytes * gpuMemoryUtilization;
}

/** Bytes of one block over all layers, without what a backend adds to align it. */
export function kvBlockBytes(shape: KvCacheShape): number {
  return 2 * shape.layers * shape.blockSize * shape.kvHeads * kvHeadBytes(shape.dtype, shape.headDim);
}
