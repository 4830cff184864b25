// Logits to tokens: raw log-probabilities aside, restrictions and penalties, the draw. The model runner calls it.

import type { Logprobs, Ops, Tensor } from '../ops/ops.ts';
import type { ScheduledSequence } from '../scheduler/scheduled-step.ts';
import { buildAllowedIds, buildLogitEdits, buildSamplingRows } from './batch-inputs.ts';
import { oneRow } from './logprob-rows.ts';

export interface SampledRows {
  readonly tokenIds: Int32Array;
  /** One entry a row, null where nobody asked. */
  readonly logprobs: readonly (Logprobs | null)[];
}

/** Samples row `i` of logits [sequences, vocab] f32 for `sampled[i]`; the logits are changed. */
export function sampleRows(ops: Ops, logits: Tensor, sampled: readonly ScheduledSequence[]): SampledRows {
  const asking = sampled.flatMap(({ sampling }, row) => (sampling?.numLogprobs == null ? [] : [row]));
  const areEdited = asking.some((row) => sampled[row]!.edits !== null);
  // Log-probabilities are those of the model, before anything is changed: only then is a copy needed.
  const raw = areEdited ? ops.gatherRows(logits, Int32Array.from(asking)) : logits;
  const edits = sampled.map((sequence) => sequence.edits);
  const allowed = buildAllowedIds(edits);
  if (allowed !== null) ops.restrictLogits(logits, allowed);
  const changes = buildLogitEdits(edits);
  if (changes !== null) ops.editLogits(logits, changes);
  const tokenIds = ops.sample(logits, buildSamplingRows(sampled));
  const places = asking.map((row, index) => ({
    row,
    rawRow: areEdited ? index : row,
    numTop: sampled[row]!.sampling!.numLogprobs!,
  }));
  return { tokenIds, logprobs: readLogprobs(ops, raw, places, tokenIds) };
}

interface Place {
  readonly row: number;
  /** The same row of the unchanged logits. */
  readonly rawRow: number;
  readonly numTop: number;
}

/** One call for all rows that ask for the same number of tokens. */
function readLogprobs(
  ops: Ops,
  raw: Tensor,
  places: readonly Place[],
  tokenIds: Int32Array,
): (Logprobs | null)[] {
  const result = new Array<Logprobs | null>(tokenIds.length).fill(null);
  for (const numTop of new Set(places.map((place) => place.numTop))) {
    const alike = places.filter((place) => place.numTop === numTop);
    const rawRows = Int32Array.from(alike, ({ rawRow }) => rawRow);
    const chosen = Int32Array.from(alike, ({ row }) => tokenIds[row]!);
    const all = ops.logprobs(raw, rawRows, chosen, numTop);
    for (const [index, { row }] of alike.entries()) result[row] = oneRow(all, index);
  }
  return result;
}
