// Log-probabilities of known tokens, those of a prompt or of a resumed answer, from the hidden states of the tokens
// before them.

import type { Model } from '../models/model.ts';
import type { Ops, Pending, Tensor } from '../ops/ops.ts';
import { type Logprobs, sliceRows } from '../sampling/logprobs.ts';
import type { LogprobTargets, ScheduledStep, StepResult } from '../scheduler/scheduled-step.ts';
import { logprobsBeside } from './chosen-logprobs.ts';

/** Rows whose logits are in memory at the same time: with a vocabulary of 152k they take 39 MB. */
const ROWS_AT_ONCE = 64;

/** One list a sequence of the step, empty where none were asked for. */
export type KnownLogprobs = Pick<StepResult, 'promptLogprobs' | 'resumedLogprobs'>;

export function computeKnownLogprobs(
  ops: Ops,
  model: Model,
  hidden: Tensor,
  { sequences }: ScheduledStep,
  queryStarts: Int32Array,
): Pending<KnownLogprobs> {
  const compute = (targets: LogprobTargets | null, index: number): Pending<Logprobs>[] =>
    targets === null ? [] : computeInPieces(ops, model, hidden, targets, queryStarts[index]!);
  const prompts = sequences.map(({ promptLogprobs }, index) => compute(promptLogprobs, index));
  const resumed = sequences.map(({ resumedLogprobs }, index) => compute(resumedLogprobs, index));
  return {
    read: () => ({
      promptLogprobs: prompts.map((pieces) => pieces.map((piece) => piece.read())),
      resumedLogprobs: resumed.map((pieces) => pieces.flatMap((piece) => rowsOf(piece.read()))),
    }),
  };
}

function rowsOf(piece: Logprobs): Logprobs[] {
  return Array.from(piece.tokenIds, (_, row) => sliceRows(piece, row, row + 1));
}

function computeInPieces(
  ops: Ops,
  model: Model,
  hidden: Tensor,
  { firstRow, tokenIds, numTop, chosen = null }: LogprobTargets,
  queryStart: number,
): Pending<Logprobs>[] {
  const pieces: Pending<Logprobs>[] = [];
  for (let start = 0; start < tokenIds.length; start += ROWS_AT_ONCE) {
    const ids = Int32Array.from(tokenIds.slice(start, start + ROWS_AT_ONCE));
    const hiddenRows = ids.map((_, row) => queryStart + firstRow + start + row);
    const logitRows = ids.map((_, row) => row);
    ops.scope(() => {
      const logits = model.logits(hidden, hiddenRows);
      // The other ranks have lent theirs to the first.
      if (ops.ranks.rank > 0) return;
      pieces.push(logprobsBeside(ops, logits, logitRows, { ids, sampled: null }, numTop, chosen));
    });
  }
  return pieces;
}
