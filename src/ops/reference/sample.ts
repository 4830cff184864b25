// Picks one token a row: temperature, then min_p, top_k and top_p, each on the tokens that are left, then the draw.

import { ShapeError } from '../../errors.ts';
import { NO_TOKEN, type SamplingRows, type Tensor } from '../ops.ts';
import { expectTensor } from './ref-tensor.ts';

/** logits [rows, vocab] f32 -> one token id a row, or NO_TOKEN. */
export function sample(logits: Tensor, rows: SamplingRows): Int32Array {
  const input = expectTensor('sample', 'logits', logits, { dtype: 'f32' });
  checkRows(logits, rows);
  const tokens = new Int32Array(logits.rows);
  for (let row = 0; row < logits.rows; row++) {
    const values = input.row(row);
    if (values.some(isBroken)) tokens[row] = NO_TOKEN;
    else tokens[row] = rows.temperature[row] === 0 ? largest(values) : draw(values, rows, row);
  }
  return tokens;
}

function isBroken(logit: number): boolean {
  return Number.isNaN(logit) || logit === Number.POSITIVE_INFINITY;
}

function checkRows(logits: Tensor, rows: SamplingRows): void {
  if (logits.cols === 0) throw new ShapeError('sample', 'at least one logit a row', 'none');
  for (const [name, values] of Object.entries(rows)) {
    if (values.length !== logits.rows)
      throw new ShapeError('sample', `${name} [${logits.rows}]`, `[${values.length}]`);
  }
}

/** The lowest id among equals. */
function largest(values: Float32Array): number {
  let best = 0;
  for (let id = 1; id < values.length; id++) if (values[id]! > values[best]!) best = id;
  return best;
}

/** Walks the kept ids upwards until the running sum of exp(logit - largest) exceeds uniform * total. */
function draw(values: Float32Array, rows: SamplingRows, row: number): number {
  const temperature = rows.temperature[row]!;
  const peak = values[largest(values)]!;
  const weight = (id: number) => Math.exp((values[id]! - peak) / temperature);
  let kept = likelyIds(values, weight, rows.minP[row]!);
  kept = keepTopK(kept, values, rows.topK[row]!);
  kept = keepTopP(kept, weight, rows.topP[row]!);
  let total = 0;
  for (const id of kept) total += weight(id);
  const target = rows.uniform[row]! * total;
  let sum = 0;
  for (const id of kept) {
    sum += weight(id);
    if (sum > target) return id;
  }
  return kept.at(-1)!;
}

/** Ids, ascending, that are at least `minP` times as probable as the most probable. */
function likelyIds(values: Float32Array, weight: (id: number) => number, minP: number): number[] {
  const ids: number[] = [];
  for (let id = 0; id < values.length; id++) if (weight(id) >= minP) ids.push(id);
  return ids;
}

/** Keeps the k largest logits and all that equal the k-th; the order of ids stays. */
function keepTopK(ids: number[], values: Float32Array, k: number): number[] {
  if (k <= 0 || k >= ids.length) return ids;
  const logits = Float32Array.from(ids, (id) => values[id]!).sort();
  const threshold = logits[logits.length - k]!;
  return ids.filter((id) => values[id]! >= threshold);
}

/** Keeps the most probable ids, the lower first among equals, until their share reaches p; the order of ids stays. */
function keepTopP(ids: number[], weight: (id: number) => number, p: number): number[] {
  if (p >= 1) return ids;
  const weights = new Map(ids.map((id) => [id, weight(id)]));
  const byWeight = [...ids].sort((a, b) => weights.get(b)! - weights.get(a)! || a - b);
  const total = ids.reduce((sum, id) => sum + weights.get(id)!, 0);
  const kept: number[] = [];
  let sum = 0;
  for (const id of byWeight) {
    if (sum >= p * total && kept.length > 0) break;
    kept.push(id);
    sum += weights.get(id)!;
  }
  return kept.sort((a, b) => a - b);
}
