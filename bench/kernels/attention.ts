// Speed of paged attention by itself: decode of 16 long sequences against memory reads of their keys and values,
// prefill of a long prompt against the matrix unit.

import { type KvDType, kvHeadBytes } from '../../src/ops/dtype.ts';
import type { AttentionBatch, KvCache, Ops } from '../../src/ops/ops.ts';
import { LimitProbe } from '../beside.ts';
import { openOps } from '../machine.ts';
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
  { name: 'llama-3.1-8b', heads: 32, kvHeads: 8, headDim: 128 },
];
/** Formats of 8 bits, which are expanded where they are used. */
const PACKED = ['fp8', 'int8'] as const;
const BLOCK_SIZE = 16;
const DECODE_SEQUENCES = 16;
const DECODE_CONTEXT = 4096;
const PREFILL_TOKENS = 2048;
/** Keys and values of the layers that take turns come to this many bytes, so that none is still in a cache. */
const ROTATED_BYTES = 300e6;
const RUNS = 4;

export function attentionSection(): Section {
  const probe = new LimitProbe();
  const measured = (measure: (ops: Ops, probe: LimitProbe) => Figure): Figure => {
    const ops = openOps();
    try {
      return measure(ops, probe);
    } finally {
      ops.close();
    }
  };
  try {
    const figures = SHAPES.flatMap((shape) => [
      measured((...args) => decode(...args, shape, 'bf16')),
      measured((...args) => prefill(...args, shape)),
    ]);
    const ofBytes = PACKED.map((dtype) => measured((...args) => decode(...args, SHAPES.at(-1)!, dtype)));
    return { title: 'Paged attention', figures: [...figures, ...ofBytes] };
  } finally {
    probe.close();
  }
}

function decode(ops: Ops, probe: LimitProbe, shape: Shape, dtype: KvDType): Figure {
  const contexts = new Array<number>(DECODE_SEQUENCES).fill(DECODE_CONTEXT);
  const seconds = prepare(ops, { ...shape, dtype }, contexts, 1);
  const bytes = DECODE_SEQUENCES * DECODE_CONTEXT * tokenBytes(shape, dtype);
  const held = probe.hold(
    'bf16',
    () => bytes / seconds() / 1e9,
    (limits) => limits.readBytesPerSecond / 1e9,
  );
  const isHalf = dtype === 'bf16';
  const kept = isHalf ? '' : `, kept in ${dtype}`;
  const name = `${shape.name}${kept}: one token each of ${DECODE_SEQUENCES} sequences of ${DECODE_CONTEXT}`;
  return { name, ...held, unit: 'GB/s', goal: isHalf ? '>= 70 %' : null };
}

function prefill(ops: Ops, probe: LimitProbe, shape: Shape): Figure {
  const seconds = prepare(ops, { ...shape, dtype: 'bf16' }, [PREFILL_TOKENS], PREFILL_TOKENS);
  // Half of all pairs of tokens are visible; two products a pair.
  const operations = (PREFILL_TOKENS * (PREFILL_TOKENS + 1) * shape.heads * shape.headDim * 4) / 2;
  const held = probe.hold(
    'bf16',
    () => operations / seconds() / 1e9,
    (limits) => limits.operationsPerSecond / 1e9,
  );
  return { name: `${shape.name}: prompt of ${PREFILL_TOKENS}`, ...held, unit: 'GFLOP/s', goal: '>= 75 %' };
}

function tokenBytes({ kvHeads, headDim }: Shape, dtype: KvDType): number {
  return 2 * kvHeads * kvHeadBytes(dtype, headDim);
}

/** Prepares attention over sequences of these lengths. @returns what measures its median seconds, in layers that take turns. */
function prepare(
  ops: Ops,
  shape: Shape & { readonly dtype: KvDType },
  contexts: readonly number[],
  queries: number,
): () => number {
  const { heads, kvHeads, headDim, dtype } = shape;
  const maxBlocks = Math.max(...contexts) / BLOCK_SIZE;
  const blocks = maxBlocks * contexts.length;
  const layerBytes = blocks * BLOCK_SIZE * tokenBytes(shape, dtype);
  const layers = queries === 1 ? Math.ceil(ROTATED_BYTES / layerBytes) : 1;
  const cache = ops.makeKvCache({ layers, blocks, blockSize: BLOCK_SIZE, kvHeads, headDim, dtype });
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
  return () =>
    ops.scope(() => {
      const q = ops.tensor(new Float32Array(rows * heads * headDim).fill(0.1), rows, heads * headDim, 'f32');
      const seconds = Array.from({ length: RUNS }, (_, run) => {
        const options = { layer: run % layers, scale: 1 / Math.sqrt(headDim), window: null };
        return timeOps(ops, () => ops.attention(q, step, options));
      });
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
