// Attention over the paged cache, the reference backend's definition: one query row, one head at a time.

import { ShapeError } from '../../errors.ts';
import { attentionDTypeOf } from '../dtype.ts';
import type { AttentionOptions, Tensor } from '../ops.ts';
import { expectTensor, RefTensor, roundToDType } from './ref-tensor.ts';
import type { RefStepInputs } from './step-inputs.ts';
import { expectVector } from './vector.ts';

/** Keys and values of one head of one sequence, [tokens, headDim] each, from position `first` on. */
interface Past {
  readonly first: number;
  readonly keys: Float32Array;
  readonly values: Float32Array;
}

/** q [tokens, heads * headDim] f32 -> [tokens, heads * headDim] in f32 over a cache of f32, else in halves. */
export function attention(q: Tensor, step: RefStepInputs, options: AttentionOptions): RefTensor {
  const { cache, batch, numTokens } = step;
  cache.expectLayer('attention', options.layer);
  const { kvHeads, headDim } = cache.headsOf(options.layer);
  const input = expectTensor('attention', 'q', q, { rows: numTokens, dtype: 'f32' });
  const group = q.cols / (kvHeads * headDim);
  if (!Number.isInteger(group) || group < 1)
    throw new ShapeError('attention', `q columns a multiple of ${kvHeads} * ${headDim}`, `${q.cols}`);
  const { isBidirectional } = options;
  if (options.chunk && (isBidirectional ?? batch.bidirectional))
    throw new ShapeError('attention', 'chunks of tokens that see none after them', 'others');
  const sinks = options.sinks ? expectVector('attention', 'sinks', options.sinks, kvHeads * group) : null;
  const out = RefTensor.zeros(q.rows, q.cols, attentionDTypeOf(cache.shape.dtype, cache.half));
  for (let sequence = 0; sequence < batch.numSequences; sequence++) {
    const [start, end] = [batch.queryStarts[sequence]!, batch.queryStarts[sequence + 1]!];
    if (start === end) continue;
    const context = batch.contextLengths[sequence]!;
    const firstPosition = context - (end - start);
    const seesAhead = isBidirectional ?? batch.bidirectional?.[sequence] === 1;
    for (let kvHead = 0; kvHead < kvHeads; kvHead++) {
      const past = gather(step, sequence, kvHead, options, firstPosition);
      for (let row = start; row < end; row++) {
        const position = firstPosition + (row - start);
        const seen = {
          from: oldest(position, options),
          to: seesAhead ? newest(position, context, options) : position,
        };
        for (let head = kvHead * group; head < (kvHead + 1) * group; head++) {
          const at = head * headDim;
          const query = input.row(row).subarray(at, at + headDim);
          const sink = sinks?.[head] ?? Number.NEGATIVE_INFINITY;
          attend(query, past, seen, { ...options, sink }, out.row(row).subarray(at, at + headDim));
        }
      }
    }
  }
  return roundToDType(out);
}

/** Position that the oldest visible token has, seen from `position`. */
function oldest(position: number, { window, chunk }: AttentionOptions): number {
  const ofWindow = window === null ? 0 : Math.max(0, position - window + 1);
  return chunk ? Math.max(ofWindow, position - (position % chunk)) : ofWindow;
}

/** Position that the newest visible token has, seen from `position` by one that sees ahead. */
function newest(position: number, context: number, { window }: AttentionOptions): number {
  return window === null ? context - 1 : Math.min(context - 1, position + window - 1);
}

/** Copies the keys and values that are visible to the rows from `firstPosition` on out of the sequence's blocks. */
function gather(
  step: RefStepInputs,
  sequence: number,
  head: number,
  options: AttentionOptions,
  firstPosition: number,
): Past {
  const { cache, batch } = step;
  const { layer } = options;
  const { blockSize } = cache.shape;
  const { headDim } = cache.headsOf(layer);
  const context = batch.contextLengths[sequence]!;
  const table = step.tableOf(layer, sequence);
  const firstBlock = Math.floor(oldest(firstPosition, options) / blockSize);
  const first = firstBlock * blockSize;
  const keys = new Float32Array((context - first) * headDim);
  const values = new Float32Array(keys.length);
  for (let position = first; position < context; position += blockSize) {
    const block = table[position / blockSize]!;
    const tokens = Math.min(blockSize, context - position);
    const start = (position - first) * headDim;
    cache.read({ layer, block, head }, 'key', tokens, keys.subarray(start));
    cache.read({ layer, block, head }, 'value', tokens, values.subarray(start));
  }
  return { first, keys, values };
}

/** softmax(scores of query · keys, and the sink) · values of one row and head, oldest token first. */
function attend(
  query: Float32Array,
  past: Past,
  seen: { readonly from: number; readonly to: number },
  { scale, softcap, sink }: AttentionOptions & { readonly sink: number },
  out: Float32Array,
): void {
  const headDim = query.length;
  const from = seen.from - past.first;
  const count = seen.to - seen.from + 1;
  const weights = new Float64Array(count);
  let largest = sink;
  for (let i = 0; i < count; i++) {
    const key = (from + i) * headDim;
    let score = 0;
    for (let d = 0; d < headDim; d++) score += query[d]! * past.keys[key + d]!;
    weights[i] = softcap ? softcap * Math.tanh((score * scale) / softcap) : score * scale;
    largest = Math.max(largest, weights[i]!);
  }
  const sums = new Float64Array(headDim);
  let total = Math.exp(sink - largest);
  for (let i = 0; i < count; i++) {
    const weight = Math.exp(weights[i]! - largest);
    const value = (from + i) * headDim;
    total += weight;
    for (let d = 0; d < headDim; d++) sums[d]! += weight * past.values[value + d]!;
  }
  for (let d = 0; d < headDim; d++) out[d] = sums[d]! / total;
}
