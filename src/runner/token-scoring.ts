// Log-probabilities of known tokens, those of a prompt or of a resumed answer, from the hidden states of the tokens
// before them. The model runner calls it.

import type { Model } from '../models/model.ts';
import type { Logprobs, Ops, Tensor } from '../ops/ops.ts';
import type { ScheduledStep, StepResult, TokenScoring } from '../scheduler/scheduled-step.ts';
import { oneRow } from './logprob-rows.ts';

/** Rows whose logits are in memory at the same time: with a vocabulary of 152k they take 39 MB. */
const ROWS_AT_ONCE = 64;

/** One list a sequence of `step`, empty where nobody asked. */
export function scoreTokens(
  ops: Ops,
  model: Model,
  hidden: Tensor,
  step: ScheduledStep,
  queryStarts: Int32Array,
): Pick<StepResult, 'promptLogprobs' | 'resumedLogprobs'> {
  const score = (scoring: TokenScoring | null, index: number): Logprobs[] =>
    scoring === null ? [] : scoreInPieces(ops, model, hidden, scoring, queryStarts[index]!);
  return {
    promptLogprobs: step.sequences.map(({ promptScoring }, index) => score(promptScoring, index)),
    resumedLogprobs: step.sequences.map(({ resumedScoring }, index) =>
      score(resumedScoring, index).flatMap(rowsOf),
    ),
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
): Logprobs[] {
  const pieces: Logprobs[] = [];
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
          chosen,
          numTop,
        );
      }),
    );
  }
  return pieces;
}
