// Ops on logits other than sampling: restriction to a list or a set, biases and penalties, log-probabilities.

import { ShapeError } from '../../errors.ts';
import type { Logprobs } from '../../sampling/logprobs.ts';
import { checkEdits, checkIdLists, checkLogprobRows, checkMasks } from '../logit-checks.ts';
import type { IdLists, LogitEdits, Tensor, TokenMasks } from '../ops.ts';
import { expectTensor } from './ref-tensor.ts';

const LARGEST = 3.4028234663852886e38;

export function restrictLogits(logits: Tensor, allowed: IdLists): void {
  const input = expectTensor('restrictLogits', 'logits', logits, { dtype: 'f32' });
  checkIdLists('restrictLogits', logits, allowed);
  for (const [index, row] of allowed.rows.entries()) {
    const values = input.row(row);
    const ids = allowed.ids.subarray(allowed.starts[index], allowed.starts[index + 1]);
    const kept = Float32Array.from(ids, (id) => values[id]!);
    values.fill(Number.NEGATIVE_INFINITY);
    for (const [place, id] of ids.entries()) values[id] = kept[place]!;
  }
}

export function maskLogits(logits: Tensor, masks: TokenMasks): void {
  const input = expectTensor('maskLogits', 'logits', logits, { dtype: 'f32' });
  checkMasks(logits, masks);
  const numWords = Math.ceil(logits.cols / 32);
  for (const [index, row] of masks.rows.entries()) {
    const words = masks.words.subarray(index * numWords, (index + 1) * numWords);
    const values = input.row(row);
    for (let id = 0; id < values.length; id++) {
      const isAllowed = (words[id >> 5]! >>> (id & 31)) & 1;
      if (!isAllowed) values[id] = Number.NEGATIVE_INFINITY;
    }
  }
}

export function editLogits(logits: Tensor, edits: LogitEdits): void {
  const input = expectTensor('editLogits', 'logits', logits, { dtype: 'f32' });
  checkEdits(logits, edits);
  for (const [index, row] of edits.rows.entries()) {
    const values = input.row(row);
    for (let at = edits.starts[index]!; at < edits.starts[index + 1]!; at++) {
      const id = edits.ids[at]!;
      values[id] = edit(values[id]!, edits, index, at);
    }
  }
}

/** Every step is rounded, so that all backends agree to the last bit. */
function edit(logit: number, edits: LogitEdits, index: number, at: number): number {
  const count = edits.counts[at]!;
  let x = Math.fround(logit + edits.biases[at]!);
  if (count >= 0) {
    const penalty = edits.repetition[index]!;
    x = Math.fround(x > 0 ? x / penalty : x * penalty);
  }
  if (count > 0) {
    x = Math.fround(x - Math.fround(count * edits.frequency[index]!));
    x = Math.fround(x - edits.presence[index]!);
  }
  // A tiny repetition penalty would make infinities, which no softmax can tell apart.
  return Math.min(x, LARGEST);
}

export function logprobs(logits: Tensor, rows: Int32Array, tokenIds: Int32Array, numTop: number): Logprobs {
  const input = expectTensor('logprobs', 'logits', logits, { dtype: 'f32' });
  checkLogprobRows(logits, rows, tokenIds, 0, numTop);
  const out = {
    tokenIds: tokenIds.slice(),
    logprobs: new Float32Array(rows.length),
    ranks: new Int32Array(rows.length),
    numTop,
    topIds: new Int32Array(rows.length * numTop),
    topLogprobs: new Float32Array(rows.length * numTop),
  };
  for (const [index, row] of rows.entries()) {
    const values = input.row(row);
    const normaliser = logSumExp(values);
    const logit = values[tokenIds[index]!]!;
    out.logprobs[index] = logit - normaliser;
    out.ranks[index] = 1 + values.reduce((count, value) => count + (value > logit ? 1 : 0), 0);
    for (const [place, id] of largestIds(values, numTop).entries()) {
      out.topIds[index * numTop + place] = id;
      out.topLogprobs[index * numTop + place] = values[id]! - normaliser;
    }
  }
  return out;
}

function logSumExp(values: Float32Array): number {
  if (values.length === 0) throw new ShapeError('logprobs', 'at least one logit a row', 'none');
  const most = values.reduce((a, b) => Math.max(a, b));
  return most + Math.log(values.reduce((sum, value) => sum + Math.exp(value - most), 0));
}

function largestIds(values: Float32Array, count: number): Int32Array {
  const ids = Int32Array.from(values, (_, id) => id);
  return ids.sort((a, b) => values[b]! - values[a]! || a - b).subarray(0, count);
}
