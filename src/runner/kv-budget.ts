// How many KV blocks fit: from the options, the model and the memory that is free.

import type { EngineConfig } from '../config/engine-config.ts';
import { MOST_POOL_BYTES } from '../config/kv-transfer-config.ts';
import { ConfigError } from '../errors.ts';
import { type BlockGroups, longestSequence, mostBlocks } from '../kv-cache/block-groups.ts';
import { BYTES_PER_ELEMENT } from '../ops/dtype.ts';
import { kvRowBytes, numKvRows } from '../ops/kv-rows.ts';
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
  /** That share the model: a block has bytes in each. */
  readonly numRanks: number;
  /** Whose blocks they are for, on the GPU of a rank; null where they are for those of all stages and ranks. */
  readonly stage: number | null;
  /** Where the rest is, for an error; empty where nothing else counts. */
  readonly account: string;
}

/** Bytes of the budget of `--gpu-memory-utilization` that are taken already, or will be. */
interface Taken {
  /** Of memory of the host, which is free until it is touched: what the draft model's cache will take. */
  readonly draftBytes: number;
  /** What this rank has loaded, and each other like it: of the engine's share of the host. */
  readonly weightBytes: number;
  /** Of a device's memory: what the largest steps took. */
  readonly activationBytes: number;
  /** Of memory of the host, for each rank: what seeing the largest image will take. */
  readonly encoderBytes: number;
}

const NOTHING: Taken = { draftBytes: 0, weightBytes: 0, activationBytes: 0, encoderBytes: 0 };

/** What a device computes. */
interface ModelPart {
  readonly stage: number;
  /** What it holds of a block of all ranks and stages, from 0 to 1. */
  readonly ofBlock: number;
}

const WHOLE: ModelPart = { stage: 0, ofBlock: 1 };

export interface CacheDesign {
  /** Of a cache with one block. */
  readonly shape: KvCacheShape;
  /** [groups] See `BlockGroups`. */
  readonly windows: readonly (number | null)[];
  /** See `BlockGroups`: blocks that a sequence needs beside those of its tokens while its states go to another instance, or come. */
  readonly stateBlocks?: number;
  /** That of each stage, where the layers are in several; left out, there is one. */
  readonly stages?: readonly KvCacheShape[];
}

/** Of the host, for all that grows while a server runs: heaps, activations, compiled constraints, kept responses (bench/NOTES.md). */
const OTHER_BYTES = 2 ** 30;

/**
 * `kvCacheMemoryBytes` exactly, else by `gpuMemoryUtilization`: of memory of the host that share of what is free beside everything else; of
 * a device's own what is left of that share of all of it, and no more than is free. Ranks and stages share the memory of the host.
 * @param ops of the part of the model that is said
 */
export function cacheMemory(
  config: Pick<EngineConfig, 'kvCacheMemoryBytes' | 'gpuMemoryUtilization' | 'share'> &
    Partial<Pick<EngineConfig, 'kvTransfer'>>,
  ops: MemoryOps,
  { draftBytes, weightBytes, activationBytes, encoderBytes }: Taken = NOTHING,
  part: ModelPart = WHOLE,
): CacheMemory {
  const { kvCacheMemoryBytes, gpuMemoryUtilization: share } = config;
  const numRanks = ops.ranks.size;
  const ofAll = { numRanks, stage: null, account: '' };
  if (kvCacheMemoryBytes !== null) return { ...ofAll, bytes: kvCacheMemoryBytes };
  const device = ops.deviceMemory();
  if (device === null) {
    // What is free at the moment says nothing where other engines are still loading their weights.
    const free = config.share === null ? ops.freeMemory() : config.share.memoryBytes - weightBytes * numRanks;
    const receiveBytes = hostReceiveBytes(config.kvTransfer ?? null);
    return { ...ofAll, ...hostMemory(free - draftBytes, share, receiveBytes, encoderBytes * numRanks) };
  }
  const free = ops.freeMemory();
  const { totalBytes, takenBytes, reservedBytes } = device;
  const receiveBytes = deviceReceiveBytes(config.kvTransfer ?? null) * part.ofBlock;
  return {
    bytes: Math.min(totalBytes * share - takenBytes, free) - reservedBytes - receiveBytes,
    numRanks,
    stage: part.stage,
    account: accountOf(device, share, free, activationBytes, receiveBytes),
  };
}

/**
 * What a KV cache may take of the host's memory, all of which it does in the end: where there was no room beside it, the system would end the process.
 * @param receiveBytes of blocks that come from other instances; the cache has as much as they have at least
 */
export function hostMemory(
  free: number,
  share: number,
  receiveBytes = 0,
  encoderBytes = 0,
): Pick<CacheMemory, 'bytes' | 'account'> {
  const other = otherBytes(free, encoderBytes);
  const received = Math.min(receiveBytes, (free - other) / 2);
  const parts = [
    `${shown(other)} are for heaps, activations${encoderBytes > 0 ? ', the largest image' : ''} and what requests leave behind`,
    ...(received > 0 ? [`${shown(received)} for blocks of other instances`] : []),
  ];
  return {
    bytes: (free - other - received) * share,
    account: `. Of the ${shown(free)} of memory that are free, ${parts.join(', ')}, and --gpu-memory-utilization ${share} is of the rest`,
  };
}

function otherBytes(free: number, encoderBytes: number): number {
  return Math.min(OTHER_BYTES + encoderBytes, free / 2);
}

/** Memory of the host in which blocks come from others. */
function hostReceiveBytes(transfer: EngineConfig['kvTransfer']): number {
  if (transfer === null || transfer.role === 'kv_producer') return 0;
  return transfer.bufferBytes + (transfer.poolBytes ?? MOST_POOL_BYTES);
}

/**
 * Bytes of the host's memory that are left for blocks of other instances, once the cache has taken all of its own.
 * @param free of the host, where the cache has taken nothing yet
 * @param cacheBytes of caches in memory of the host
 */
export function receiveRoom(free: number, cacheBytes: number, encoderBytes: number): number {
  return Math.max(0, free - otherBytes(free, encoderBytes) - cacheBytes);
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

/** What the addon takes. */
const MOST_BLOCKS = 2 ** 28;

/**
 * Blocks for the KV cache: what fits, but of a share never more than `maxNumSeqs` requests of `maxModelLen` tokens could use.
 * @throws ConfigError where not even one request of `maxModelLen` tokens fits, or there are more blocks than a cache can have.
 */
export function chooseNumBlocks(
  config: BudgetConfig,
  design: CacheDesign,
  maxModelLen: number,
  memory: CacheMemory,
): number {
  const { blockSize, maxNumBatchedTokens } = config;
  const groups = groupsOf(blockSize, design);
  const perRequest = mostBlocks(groups, maxModelLen, maxNumBatchedTokens);
  const fitting = fittingBlocks(design, memory);
  const numBlocks =
    config.kvCacheMemoryBytes === null ? Math.min(fitting, perRequest * config.maxNumSeqs) : fitting;
  if (numBlocks < perRequest) {
    const ofAll = cacheBytes(design, perRequest, memory.numRanks);
    const room = longestSequence(groups, Math.max(0, numBlocks), maxNumBatchedTokens);
    throw new ConfigError(
      `the KV cache has room for ${room} tokens, one request of max_model_len needs ` +
        `${maxModelLen}: raise --kv-cache-memory-bytes to at least ${ofAll * config.dataParallelSize} ` +
        `(or --gpu-memory-utilization)${room === 0 ? '' : `, or lower --max-model-len to at most ${room}`}${memory.account}`,
      { param: 'kv-cache-memory-bytes' },
    );
  }
  if (numBlocks > MOST_BLOCKS) {
    const most = cacheBytes(design, MOST_BLOCKS, memory.numRanks) * config.dataParallelSize;
    throw new ConfigError(
      `the KV cache would have ${numBlocks} blocks, more than ${MOST_BLOCKS}: lower --kv-cache-memory-bytes to at most ${most}`,
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
  const numBlocks = fittingBlocks(design, memory);
  const longest = longestSequence(groupsOf(blockSize, design), Math.max(0, numBlocks), maxNumBatchedTokens);
  return Math.min(modelLimit, Math.max(blockSize, longest));
}

/**
 * What to tell where `kvCacheMemoryBytes` is more than the machine has left; null where it is not. Memory of the host is taken as it is
 * used, so that the engine may serve for long.
 */
export function overcommitNotice(
  { kvCacheMemoryBytes, dataParallelSize }: Pick<EngineConfig, 'kvCacheMemoryBytes' | 'dataParallelSize'>,
  ops: MemoryOps,
): string | null {
  if (kvCacheMemoryBytes === null || ops.deviceMemory() !== null) return null;
  const wanted = kvCacheMemoryBytes * dataParallelSize;
  const free = ops.freeMemory();
  if (wanted <= free) return null;
  return (
    `--kv-cache-memory-bytes ${wanted} (${shown(wanted)}) is more than the ${shown(free)} that are free: the cache takes memory ` +
    'as it is used, and the system may end the process when there is no more; lower it'
  );
}

function groupsOf(blockSize: number, { windows, stateBlocks = 0 }: CacheDesign): BlockGroups {
  return { blockSize, windows, stateBlocks };
}

/** Blocks that hold what layers keep of one sequence, each stage in its rows. */
export function numStateBlocks(stages: readonly KvCacheShape[]): number {
  const numBlocks = (shape: KvCacheShape): number => {
    const { layers, width } = shape.states ?? { layers: 0, width: 0 };
    return Math.ceil((layers * width * BYTES_PER_ELEMENT.f32) / kvBlockBytes(shape));
  };
  return Math.max(...stages.map(numBlocks));
}

function fittingBlocks(design: CacheDesign, memory: CacheMemory): number {
  const { shape, stages = [shape] } = design;
  const { bytes, numRanks, stage } = memory;
  const ofBlock = stage === null ? designBytes(design) * numRanks : kvBlockBytes(stages[stage]!);
  return Math.floor((bytes - stateBytes(design, memory)) / ofBlock);
}

/** Bytes of the states that a cache has in so much memory: those of all ranks and stages, or of one. */
export function stateBytes(
  { shape, stages = [shape] }: CacheDesign,
  { numRanks, stage }: Pick<CacheMemory, 'numRanks' | 'stage'>,
): number {
  const bytesOf = ({ states }: KvCacheShape): number =>
    states === undefined ? 0 : states.layers * states.slots * states.width * BYTES_PER_ELEMENT.f32;
  if (stage !== null) return bytesOf(stages[stage]!);
  return numRanks * stages.reduce((sum, one) => sum + bytesOf(one), 0);
}

/** Bytes of a cache of so many blocks, over all ranks and stages. */
export function cacheBytes(design: CacheDesign, numBlocks: number, numRanks: number): number {
  return numBlocks * designBytes(design) * numRanks + stateBytes(design, { numRanks, stage: null });
}

/** Bytes of one block in all stages. */
function designBytes({ shape, stages = [shape] }: CacheDesign): number {
  return stages.reduce((sum, one) => sum + kvBlockBytes(one), 0);
}

/** Bytes of one block over all its rows, without what a backend adds to align it. */
export function kvBlockBytes(shape: KvCacheShape): number {
  return numKvRows(shape) * shape.blockSize * kvRowBytes(shape);
}
