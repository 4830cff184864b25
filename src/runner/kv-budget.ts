// How many KV blocks fit: from the options, the model and the memory that is free.

import type { EngineConfig } from '../config/engine-config.ts';
import { ConfigError } from '../errors.ts';
import { longestSequence, mostBlocks } from '../kv-cache/block-groups.ts';
import { kvHeadBytes } from '../ops/dtype.ts';
import { numKvRows, vectorsPerToken } from '../ops/kv-rows.ts';
import type { DeviceMemory, KvCacheShape, Ops } from '../ops/ops.ts';
import { bytes as shown } from '../util/bytes.ts';

type BudgetConfig = Pick<
  EngineConfig,
  'kvCacheMemoryBytes' | 'maxNumSeqs' | 'maxNumBatchedTokens' | 'blockSize' | 'dataParallelSize'
>;

export type MemoryOps = Pick<Ops, 'freeMemory' | 'deviceMemory' | 'ranks'>;

/** What the KV cache may take. */
export interface CacheMemory {
  readonly bytes: number;
  /** Ranks that share them: a block has bytes in each. */
  readonly numRanks: number;
  /** Where the rest is, for an error; empty where nothing else counts. */
  readonly account: string;
}

/** What is taken, or as good as taken, of what `--gpu-memory-utilization` gives. */
interface Taken {
  /** Of memory of the host, which is free until it is touched: what the draft model's cache will take. */
  readonly draftBytes: number;
  /** What this rank has loaded, and each other like it: of the engine's share of the host. */
  readonly weightBytes: number;
  /** Of a device's memory: what the largest steps took. */
  readonly activationBytes: number;
}

const NOTHING: Taken = { draftBytes: 0, weightBytes: 0, activationBytes: 0 };

export interface CacheDesign {
  /** Of a cache with one block. */
  readonly shape: KvCacheShape;
  /** [groups] See `BlockGroups`. */
  readonly windows: readonly (number | null)[];
  /** That of each stage, where the layers are in several; left out, there is one. */
  readonly stages?: readonly KvCacheShape[];
}

/**
 * `kvCacheMemoryBytes` exactly, else by `gpuMemoryUtilization`: of memory of the host that share of what is free; of a device's own what
 * is left of that share of all of it, and no more than is free. Ranks share the memory of the host.
 * @param numCuts ranks among which a block is divided
 */
export function cacheMemory(
  config: Pick<EngineConfig, 'kvCacheMemoryBytes' | 'gpuMemoryUtilization' | 'share'> &
    Partial<Pick<EngineConfig, 'kvTransfer'>>,
  ops: MemoryOps,
  { draftBytes, weightBytes, activationBytes }: Taken = NOTHING,
  numCuts = 1,
): CacheMemory {
  const { kvCacheMemoryBytes, gpuMemoryUtilization: share } = config;
  const numRanks = ops.ranks.size;
  if (kvCacheMemoryBytes !== null) return { bytes: kvCacheMemoryBytes, numRanks, account: '' };
  // What is free at the moment says nothing where other engines are still loading their weights.
  const free = config.share === null ? ops.freeMemory() : config.share.memoryBytes - weightBytes * numRanks;
  const device = ops.deviceMemory();
  if (device === null) return { bytes: (free - draftBytes) * share, numRanks, account: '' };
  const { totalBytes, takenBytes, reservedBytes } = device;
  const receiveBytes = deviceReceiveBytes(config.kvTransfer ?? null) / numCuts;
  return {
    bytes: Math.min(totalBytes * share - takenBytes, free) - reservedBytes - receiveBytes,
    numRanks: 1,
    account: accountOf(device, share, free, activationBytes, receiveBytes),
  };
}

/** Memory of GPUs in which blocks come from others: each has its part of every block. */
function deviceReceiveBytes(transfer: EngineConfig['kvTransfer']): number {
  if (transfer === null || transfer.role === 'kv_producer') return 0;
  return transfer.transport === 'shm' || transfer.transport === 'tcp' ? 0 : transfer.bufferBytes;
}

function accountOf(
  { totalBytes, takenBytes, reservedBytes }: DeviceMemory,
  share: number,
  free: number,
  activationBytes: number,
  receiveBytes: number,
): string {
  const parts = [
    `${shown(Math.max(0, takenBytes - activationBytes))} are taken by weights and kernels`,
    `${shown(activationBytes)} by activations (less with a lower --max-num-batched-tokens or --max-num-seqs)`,
    `${shown(reservedBytes)} are kept for CUDA graphs and arrays of steps (less with --enforce-eager)`,
    ...(receiveBytes > 0 ? [`${shown(receiveBytes)} receive blocks of other GPUs (kv_buffer_size)`] : []),
    ...(free < totalBytes * share - takenBytes ? [`${shown(free)} are free beside other processes`] : []),
  ];
  return `. Of the GPU's ${shown(totalBytes)}, --gpu-memory-utilization ${share} gives ${shown(totalBytes * share)}: ${parts.join(', ')}`;
}

/**
 * Blocks for the KV cache: what fits, but of a share never more than `maxNumSeqs` requests of `maxModelLen` tokens could use.
 * @throws ConfigError where not even one request of `maxModelLen` tokens fits.
 */
export function chooseNumBlocks(
  config: BudgetConfig,
  design: CacheDesign,
  maxModelLen: number,
  memory: CacheMemory,
): number {
  const { blockSize, maxNumBatchedTokens } = config;
  const groups = { blockSize, windows: design.windows };
  const perRequest = mostBlocks(groups, maxModelLen, maxNumBatchedTokens);
  const blockBytes = designBytes(design) * memory.numRanks;
  const fitting = Math.floor(memory.bytes / blockBytes);
  const numBlocks =
    config.kvCacheMemoryBytes === null ? Math.min(fitting, perRequest * config.maxNumSeqs) : fitting;
  if (numBlocks < perRequest) {
    const room = longestSequence(groups, Math.max(0, numBlocks), maxNumBatchedTokens);
    throw new ConfigError(
      `the KV cache has room for ${room} tokens, one request of max_model_len needs ` +
        `${maxModelLen}: raise --kv-cache-memory-bytes to at least ${perRequest * blockBytes * config.dataParallelSize} ` +
        `(or --gpu-memory-utilization)${room === 0 ? '' : `, or lower --max-model-len to at most ${room}`}${memory.account}`,
      { param: 'kv-cache-memory-bytes' },
    );
  }
  return numBlocks;
}

/**
 * The longest sequence that fits into the same KV cache, up to the limit of the model; one block at least, for the error above.
 */
export function longestFitting(
  { blockSize, maxNumBatchedTokens }: BudgetConfig,
  design: CacheDesign,
  modelLimit: number,
  memory: CacheMemory,
): number {
  const numBlocks = Math.floor(memory.bytes / (designBytes(design) * memory.numRanks));
  const longest = longestSequence(
    { blockSize, windows: design.windows },
    Math.max(0, numBlocks),
    maxNumBatchedTokens,
  );
  return Math.min(modelLimit, Math.max(blockSize, longest));
}

/** Bytes of one block in all stages. */
function designBytes({ shape, stages = [shape] }: CacheDesign): number {
  return stages.reduce((sum, one) => sum + kvBlockBytes(one), 0);
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
