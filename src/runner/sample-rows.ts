// Logits to tokens: masks, restrictions and penalties, then the draw; log-probabilities are those of the untouched logits.

import type { Ops, Pending, SampledTokens, Tensor } from '../ops/ops.ts';
import type { RowEdits } from '../sampling/logit-rules.ts';
import { type Logprobs, sliceRows } from '../sampling/logprobs.ts';
import {
  buildAllowedIds,
  buildLogitEdits,
  buildSamplingRows,
  buildTokenMasks,
  type RowSampling,
  withShorterMask,
} from './batch-inputs.ts';
import { logprobsBeside } from './chosen-logprobs.ts';

/** A row of logits that is sampled. */
interface SamplingRow extends RowSampling {
  /** How it is changed before; null leaves it as it is. */
  readonly edits: RowEdits | null;
}

export interface SampledRows {
  readonly tokens: SampledTokens;
  /** One entry a row, null where none were asked for. */
  readonly logprobs: Pending<readonly (Logprobs | null)[]>;
}

/** Samples row `i` of logits [rows, vocab] f32 as `sampled[i]` says; the logits are changed. */
export function sampleRows(ops: Ops, logits: Tensor, sampled: readonly SamplingRow[]): SampledRows {
  const asking = sampled.flatMap(({ sampling }, row) => (sampling.numLogprobs === null ? [] : [row]));
  const areEdited = asking.some((row) => sampled[row]!.edits !== null);
  // Log-probabilities are those of the model, before anything is changed: only then is a copy needed.
  const raw = areEdited ? ops.gatherRows(logits, Int32Array.from(asking)) : logits;
  const edits = sampled.map((one) => withShorterMask(one.edits, logits.cols));
  const allowed = buildAllowedIds(edits);
  if (allowed !== null) ops.restrictLogits(logits, allowed);
  const masks = buildTokenMasks(edits);
  if (masks !== null) ops.maskLogits(logits, masks);
  const changes = buildLogitEdits(edits);
  if (changes !== null) ops.editLogits(logits, changes);
  const tokens = ops.sample(logits, buildSamplingRows(sampled));
  const rows = asking.map((row, index) => ({
    row,
    rawRow: areEdited ? index : row,
    numTop: sampled[row]!.sampling.numLogprobs!,
    chosen: sampled[row]!.sampling.logprobTokenIds ?? null,
  }));
  return { tokens, logprobs: computeLogprobs(ops, raw, rows, tokens, sampled.length) };
}

interface LogprobRow {
  readonly row: number;
  /** The same row of the unchanged logits. */
  readonly rawRow: number;
  readonly numTop: number;
  /** Tokens that are named, in the place of the most probable ones. */
  readonly chosen: readonly number[] | null;
}

/** One call for all rows that ask for the same number of tokens, or name the same. */
function computeLogprobs(
  ops: Ops,
  raw: Tensor,
  asking: readonly LogprobRow[],
  sampled: SampledTokens,
  numRows: number,
): Pending<(Logprobs | null)[]> {
  const kindOf = ({ numTop, chosen }: LogprobRow): string => chosen?.join() ?? `top ${numTop}`;
  const calls = [...new Set(asking.map(kindOf))].map((kind) => {
    const alike = asking.filter((one) => kindOf(one) === kind);
    const { numTop, chosen } = alike[0]!;
    const rawRows = Int32Array.from(alike, ({ rawRow }) => rawRow);
    const ids = Int32Array.from(alike, ({ row }) => -1 - row);
    return { alike, all: logprobsBeside(ops, raw, rawRows, { ids, sampled }, numTop, chosen) };
  });
  const read = (): (Logprobs | null)[] => {
    const result = new Array<Logprobs | null>(numRows).fill(null);
    for (const { alike, all } of calls) {
      const rows = all.read();
      for (const [index, { row }] of alike.entries()) result[row] = sliceRows(rows, index, index + 1);
    }
    return result;
  };
  return { read };
}
