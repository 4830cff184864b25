// Batches for tests of attention: sequences in shuffled blocks, some decoding, some prefilling.

import { attentionDTypeOf, type KvDType } from '../../src/ops/dtype.ts';
import type { AttentionBatch, KvCache, Ops } from '../../src/ops/ops.ts';
import type { Random } from '../helpers/random.ts';
import { beginStepInto, beginStepOver } from './steps.ts';

export interface Heads {
  readonly headDim: number;
  readonly kvHeads: number;
  readonly group: number;
  readonly blockSize: number;
  readonly window: number | null;
  readonly chunk?: number;
  readonly softcap?: number;
  /** Whether rows see the tokens after them, too; left out, those of sequences that say so. */
  readonly isBidirectional?: boolean;
  /** Whether each head has a sink: of another size each. */
  readonly hasSinks?: boolean;
}

/** A sequence of `context` tokens, the last `queries` of them computed in this step. */
export interface SequenceSize {
  readonly context: number;
  readonly queries: number;
}

/** Keys, values and queries of every token of one sequence, by position. */
export interface Sequence extends SequenceSize {
  readonly k: Float32Array;
  readonly v: Float32Array;
  readonly q: Float32Array;
  readonly blocks: Int32Array;
  /** Whether its rows see the tokens after them, where others in the step need not. */
  readonly seesAhead?: boolean;
}

/** Tokens from `begin` to `end` of a sequence, which see each other, those before them, and those after them. */
export function partsAround(sequence: Sequence, begin: number, end: number): Sequence[] {
  return [
    { ...sequence, context: begin, queries: begin },
    { ...sequence, context: end, queries: end - begin, seesAhead: true },
    { ...sequence, queries: sequence.context - end },
  ];
}

export function makeSequences(
  random: Random,
  heads: Heads,
  dtype: KvDType,
  sizes: readonly SequenceSize[],
): { sequences: Sequence[]; numBlocks: number } {
  const width = heads.headDim * heads.kvHeads;
  const needs = sizes.map(({ context }) => Math.ceil(context / heads.blockSize));
  const numBlocks = needs.reduce((sum, need) => sum + need, 0);
  const order = random.permutation(numBlocks);
  let used = 0;
  const sequences = sizes.map(({ context, queries }, i) => {
    const blocks = order.slice(used, used + needs[i]!);
    used += needs[i]!;
    return {
      context,
      queries,
      k: random.floats(context * width),
      v: random.floats(context * width),
      q: random.floats(
        context * width * heads.group,
        attentionDTypeOf(dtype, dtype === 'f16' ? 'f16' : 'bf16'),
      ),
      blocks,
    };
  });
  return { sequences, numBlocks };
}

function concat(arrays: readonly Float32Array[]): Float32Array {
  const joined = new Float32Array(arrays.reduce((sum, array) => sum + array.length, 0));
  let at = 0;
  for (const array of arrays) {
    joined.set(array, at);
    at += array.length;
  }
  return joined;
}

/** Stores positions [from, to) of a sequence. */
export function storeTokens(
  ops: Ops,
  cache: KvCache,
  layer: number,
  sequence: Sequence,
  from: number,
  to: number,
): void {
  const { kvHeads, headDim, blockSize } = cache.shape;
  const width = kvHeads * headDim;
  const slots = Int32Array.from({ length: to - from }, (_, i) => {
    const position = from + i;
    return sequence.blocks[Math.floor(position / blockSize)]! * blockSize + (position % blockSize);
  });
  const part = (values: Float32Array): Float32Array => values.subarray(from * width, to * width);
  const k = ops.tensor(part(sequence.k), slots.length, width, 'f32');
  const v = cache.shape.keysAreValues ? null : ops.tensor(part(sequence.v), slots.length, width, 'f32');
  ops.storeKv(k, v, beginStepInto(ops, cache, slots), layer);
}

/** Attention of the last `queries` positions of each sequence; their keys and values are already stored. */
export function attend(
  ops: Ops,
  cache: KvCache,
  layer: number,
  heads: Heads,
  sequences: readonly Sequence[],
): Float32Array {
  const queryWidth = heads.headDim * heads.kvHeads * heads.group;
  const starts = [0];
  for (const { queries } of sequences) starts.push(starts.at(-1)! + queries);
  const maxBlocks = Math.max(...sequences.map(({ blocks }) => blocks.length));
  const blockTables = new Int32Array(sequences.length * maxBlocks).fill(-1);
  for (const [i, { blocks }] of sequences.entries()) blockTables.set(blocks, i * maxBlocks);
  const batch: AttentionBatch = {
    numSequences: sequences.length,
    queryStarts: Int32Array.from(starts),
    contextLengths: Int32Array.from(sequences, ({ context }) => context),
    blockTables,
    maxBlocks,
    ...(sequences.some(({ seesAhead }) => seesAhead) && {
      bidirectional: Int32Array.from(sequences, ({ seesAhead }) => (seesAhead ? 1 : 0)),
    }),
  };
  const queries = sequences.map(({ q, context, queries }) =>
    q.subarray((context - queries) * queryWidth, context * queryWidth),
  );
  const q = ops.tensor(concat(queries), starts.at(-1)!, queryWidth, 'f32');
  const scale = 1 / Math.sqrt(heads.headDim);
  const step = beginStepOver(ops, cache, batch);
  const { window, chunk = null, softcap = null, isBidirectional, hasSinks } = heads;
  const sinks = Float32Array.from({ length: heads.kvHeads * heads.group }, (_, head) => 3 - 2 * head);
  const options = {
    layer,
    isBidirectional,
    scale,
    window,
    chunk,
    softcap,
    sinks: hasSinks ? ops.makeVector(sinks) : null,
  };
  return ops.read(ops.attention(q, step, options));
}
