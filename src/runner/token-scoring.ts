// Log-probabilities of known tokens, those of a prompt or of a resumed answer, from the hidden states of the tokens
// before them. The model runner calls it.

import type { Model } from '../models/model.ts';
import type { Logprobs, Ops, Pending, Tensor } from '../ops/ops.ts';
import type { ScheduledStep, StepResult, TokenScoring } from '../scheduler/scheduled-step.ts';
import { oneRow } from './logprob-rows.ts';

/** Rows whose logits are in memory at the same time: with a vocabulary of 152k they take 39 MB. */
const ROWS_AT_ONCE = 64;

/** One list a sequence of the step, empty where nobody asked. */
export type ScoredTokens = Pick<StepResult, 'promptLogprobs' | 'resumedLogprobs'>;

export function scoreTokens(
  ops: Ops,
  model: Model,
  hidden: Tensor,
  step: ScheduledStep,
  queryStarts: Int32Array,
): Pending<ScoredTokens> {
  const score = (scoring: TokenScoring | null, index: number): Pending<Logprobs>[] =>
    scoring === null ? [] : scoreInPieces(ops, model, hidden, scoring, queryStarts[index]!);
  const prompts = step.sequences.map(({ promptScoring }, index) => score(promptScoring, index));
  const resumed = step.sequences.map(({ resumedScoring }, index) => score(resumedScoring, index));
  return {
    read: () => ({
      promptLogprobs: prompts.map((pieces) => pieces.map((piece) => piece.read())),
      resumedLogprobs: resumed.map((pieces) => pieces.flatMap((piece) => rowsOf(piece.read()))),
    }),
  };
}

function rowsOf(piece: Logprobs): Logprobs[] {
  return Array.from(piece.tokenIds, (_, row) => oneRow(piece, row));
}

function scoreInPieces(
  ops: Ops,
  model: Model,
  hidden: Tensor,
  { firstToken, tokenIds, numTop }: TokenScoring,
  queryStart: number,
): Pending<Logprobs>[] {
  const pieces: Pending<Logprobs>[] = [];
  for (let start = 0; start < tokenIds.length; start += ROWS_AT_ONCE) {
    const chosen = Int32Array.from(tokenIds.slice(start, start + ROWS_AT_ONCE));
    const firstRow = queryStart + firstToken + start;
    pieces.push(
      ops.scope(() => {
        const logits = model.logits(
          hidden,
          chosen.map((_, row) => firstRow + row),
        );
        return ops.logprobs(
          logits,
          chosen.map((_, row) => row),
          { ids: chosen, sampled: null },
          numTop,
        );
      }),
    );
  }
  return pieces;
}
