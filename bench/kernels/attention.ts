// Speed of paged attention by itself: decode of 16 long sequences against memory reads of their keys and values,
// prefill of a long prompt against the matrix unit.

import type { AttentionBatch, KvCache, Ops } from '../../src/ops/ops.ts';
import { type MachineLimits, openOps } from '../machine.ts';
import { type Figure, median, type Section } from '../report.ts';
import { timeOps } from './time-ops.ts';

interface Shape {
  readonly name: string;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
}

const SHAPES: readonly Shape[] = [
  { name: 'qwen2.5-0.5b', heads: 14, kvHeads: 2, headDim: 64 },
  { name: 'llama-3.2-1b', heads: 32, kvHeads: 8, headDim: 64 },
];
const BLOCK_SIZE = 16;
const DECODE_SEQUENCES = 16;
const DECODE_CONTEXT = 2048;
const PREFILL_TOKENS = 2048;
const RUNS = 15;

export function attentionSection(limits: MachineLimits): Section {
  const ops = openOps();
  try {
    const figures = SHAPES.flatMap((shape) => [decode(ops, shape, limits), prefill(ops, shape, limits)]);
    return { title: 'Paged attention, bf16', figures };
  } finally {
    ops.close();
  }
}

function decode(ops: Ops, shape: Shape, limits: MachineLimits): Figure {
  const context = new Array<number>(DECODE_SEQUENCES).fill(DECODE_CONTEXT);
  const seconds = measure(ops, shape, context, 1);
  const bytes = DECODE_SEQUENCES * DECODE_CONTEXT * shape.kvHeads * shape.headDim * 2 * 2;
  return {
    name: `${shape.name}: one token each of ${DECODE_SEQUENCES} sequences of ${DECODE_CONTEXT}`,
    value: bytes / seconds / 1e9,
    unit: 'GB/s',
    limit: limits.memoryReadBytesPerSecond / 1e9,
    goal: null,
  };
}

function prefill(ops: Ops, shape: Shape, limits: MachineLimits): Figure {
  const seconds = measure(ops, shape, [PREFILL_TOKENS], PREFILL_TOKENS);
  // Half of all pairs of tokens are visible; two products a pair.
  const operations = (PREFILL_TOKENS * (PREFILL_TOKENS + 1) * shape.heads * shape.headDim * 4) / 2;
  return {
    name: `${shape.name}: prompt of ${PREFILL_TOKENS}`,
    value: operations / seconds / 1e9,
    unit: 'GFLOP/s',
    limit: limits.matrixFlops / 1e9,
    goal: null,
  };
}

/** Median seconds of attention over sequences of these lengths, in caches that take turns. */
function measure(ops: Ops, shape: Shape, contexts: readonly number[], queries: number): number {
  const { heads, kvHeads, headDim } = shape;
  const maxBlocks = Math.max(...contexts) / BLOCK_SIZE;
  const layers = queries === 1 ? 8 : 1;
  const blocks = maxBlocks * contexts.length;
  const cache = ops.makeKvCache({ layers, blocks, blockSize: BLOCK_SIZE, kvHeads, headDim, dtype: 'bf16' });
  for (let layer = 0; layer < layers; layer += 1) fill(ops, cache, layer);
  const batch: AttentionBatch = {
    numSequences: contexts.length,
    queryStarts: Int32Array.from({ length: contexts.length + 1 }, (_, i) => i * queries),
    contextLengths: Int32Array.from(contexts),
    blockTables: Int32Array.from({ length: blocks }, (_, i) => i),
    maxBlocks,
  };
  const rows = contexts.length * queries;
  const zeros = new Int32Array(rows);
  const step = ops.beginStep(cache, { positions: zeros, slotMapping: zeros, batch });
  return ops.scope(() => {
    const q = ops.tensor(new Float32Array(rows * heads * headDim).fill(0.1), rows, heads * headDim, 'f32');
    const seconds: number[] = [];
    for (let run = 0; run < RUNS; run += 1) {
      const options = { layer: run % layers, scale: 1 / Math.sqrt(headDim), window: null };
      seconds.push(timeOps(ops, () => ops.attention(q, step, options)));
    }
    return median(seconds);
  });
}

/** Small numbers in every slot of a layer. */
function fill(ops: Ops, cache: KvCache, layer: number): void {
  const { blocks, blockSize, kvHeads, headDim } = cache.shape;
  const width = kvHeads * headDim;
  const slots = blocks * blockSize;
  ops.scope(() => {
    const values = new Float32Array(slots * width).map((_, i) => ((i * 7919) % 1009) / 1009 - 0.5);
    const rows = ops.tensor(values, slots, width, 'f32');
    const slotMapping = Int32Array.from({ length: slots }, (_, slot) => slot);
    const batch: AttentionBatch = {
      numSequences: 1,
      queryStarts: Int32Array.of(0, slots),
      contextLengths: Int32Array.of(slots),
      blockTables: Int32Array.from({ length: blocks }, (_, i) => i),
      maxBlocks: blocks,
    };
    const step = ops.beginStep(cache, { positions: slotMapping, slotMapping, batch });
    ops.storeKv(rows, rows, step, layer);
  });
}
