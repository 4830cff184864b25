// Lets a device with memory of its own take what activations and sums of parts need, before the KV cache takes the rest: steps as large as
// any are computed once, over keys and values that nobody stored.

import type { EngineConfig } from '../config/engine-config.ts';
import type { ForwardInputs, Model } from '../models/model.ts';
import { type KvCache, NO_SLOT, type Ops, type Tensor } from '../ops/ops.ts';
import { bytes } from '../util/bytes.ts';
import { explained } from './device-memory.ts';
import type { CacheDesign } from './kv-budget.ts';
import { makeKvCache } from './kv-memory.ts';

interface StepLimits extends Pick<EngineConfig, 'maxNumBatchedTokens' | 'maxNumSeqs' | 'speculative'> {
  readonly maxModelLen: number;
  /** Whether adapters compute, too. */
  readonly hasAdapters: boolean;
}

/**
 * @param stages what the stages of the model are computed on; one where it is in one piece
 * @param limits of the largest step
 * @returns [stages] bytes that they took, all together; 0 on a device that computes in memory of the host, where nothing is computed.
 * @throws ConfigError where a device has too little.
 */
export function takeActivations(
  stages: readonly Ops[],
  model: Model,
  { shape, windows }: CacheDesign,
  limits: StepLimits,
): number[] {
  const before = takenOf(stages);
  if (before === null) return stages.map(() => 0);
  try {
    computeLargestSteps(stages, model, { shape, windows }, limits);
  } catch (error) {
    throw explained(error, {
      what: `beside weights and kernels, which have ${before.map(bytes).join(', ')}, the largest step finds`,
      remedy: 'lower --max-num-batched-tokens or --max-num-seqs',
      param: 'max-num-batched-tokens',
    });
  }
  return takenOf(stages)!.map((bytes, stage) => bytes - before[stage]!);
}

/** [stages] Bytes of a device's own memory; null where they compute in memory of the host. */
function takenOf(stages: readonly Ops[]): number[] | null {
  const taken = stages.flatMap((ops) => ops.deviceMemory()?.takenBytes ?? []);
  return taken.length === stages.length ? taken : null;
}

function computeLargestSteps(
  stages: readonly Ops[],
  model: Model,
  { shape, windows }: CacheDesign,
  limits: StepLimits,
): void {
  // One block, which stands for each of a context, and one state.
  const states = shape.states && { ...shape.states, slots: 1 };
  const cache = makeKvCache(stages, model, { ...shape, states });
  try {
    computeSteps(stages.at(-1)!, model, cache, windows.length, limits);
  } finally {
    cache.free();
  }
}

/** @param ops of the last stage */
function computeSteps(ops: Ops, model: Model, cache: KvCache, numGroups: number, limits: StepLimits): void {
  const { maxNumBatchedTokens, maxNumSeqs, maxModelLen } = limits;
  const { imageEncoder } = model;
  imageEncoder?.encode(imageEncoder.largestTile, { factors: [1, 1, 1], offsets: [0, 0, 0] });
  // Some sums are taken apart only where there are few rows.
  for (
    let rows = Math.min(maxNumBatchedTokens, maxNumSeqs * maxModelLen);
    rows >= 1;
    rows = Math.floor(rows / 2)
  ) {
    const lengths = Array.from({ length: Math.ceil(rows / maxModelLen) }, (_, index) =>
      Math.min(maxModelLen, rows - index * maxModelLen),
    );
    computeStep(ops, model, cache, inputsOf(lengths, cache, numGroups, limits), limits);
  }
  for (let rows = maxNumSeqs; rows >= 1; rows = Math.floor(rows / 2)) {
    const lengths = new Array<number>(ops.paddedBatch(rows)).fill(1);
    computeStep(ops, model, cache, inputsOf(lengths, cache, numGroups, limits), limits);
  }
}

/** @param lengths rows of each sequence; the first one ends a context as long as any */
function inputsOf(
  lengths: readonly number[],
  { shape: { blockSize } }: KvCache,
  numGroups: number,
  { maxModelLen, hasAdapters }: StepLimits,
): ForwardInputs {
  const queryStarts = new Int32Array(lengths.length + 1);
  for (const [index, length] of lengths.entries()) queryStarts[index + 1] = queryStarts[index]! + length;
  const numRows = queryStarts.at(-1)!;
  const noSlots = new Int32Array(lengths.length).fill(NO_SLOT);
  const maxBlocks = Math.ceil(maxModelLen / blockSize);
  return {
    tokens: { ids: new Int32Array(numRows), sampled: null },
    positions: new Int32Array(numRows),
    slotMapping: new Int32Array(numGroups * numRows).fill(NO_SLOT),
    batch: {
      numSequences: lengths.length,
      queryStarts,
      contextLengths: Int32Array.of(maxModelLen, ...lengths.slice(1)),
      blockTables: new Int32Array(numGroups * lengths.length * maxBlocks),
      maxBlocks,
    },
    states: { sources: noSlots, slots: noSlots, saves: new Int32Array(0) },
    ...(hasAdapters && { adapters: new Int32Array(lengths.length) }),
  };
}

function computeStep(
  ops: Ops,
  model: Model,
  cache: KvCache,
  inputs: ForwardInputs,
  limits: StepLimits,
): void {
  const { maxNumSeqs, speculative } = limits;
  const numRows = inputs.positions.length;
  const sampledRows = maxNumSeqs * (1 + (speculative?.numSpeculativeTokens ?? 0));
  const numWanted = model.config.pooling === null ? Math.min(numRows, sampledRows) : numRows;
  const wanted = Int32Array.from({ length: numWanted }, (_, row) => row);
  ops.scope(() => {
    const hidden = model.forward(inputs, cache);
    const out = model.logits(hidden, wanted);
    if (model.config.pooling === null) sample(ops, out);
    ops.mark().read();
  });
}

/** With a mask and a copy of the logits, as where log-probabilities are asked for. */
function sample(ops: Ops, logits: Tensor): void {
  const { rows, cols } = logits;
  const all = Int32Array.from({ length: rows }, (_, row) => row);
  ops.gatherRows(logits, all);
  ops.maskLogits(logits, { rows: all, words: new Uint32Array(rows * Math.ceil(cols / 32)).fill(0xffffffff) });
  ops.sample(logits, {
    temperature: new Float32Array(rows).fill(1),
    topK: new Int32Array(rows),
    topP: new Float32Array(rows).fill(1),
    minP: new Float32Array(rows),
    uniform: new Float64Array(rows),
  });
}
