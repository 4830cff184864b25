// Log-probabilities of prompt tokens, from the hidden states of the tokens before them. The model runner calls it.

import type { Model } from '../models/model.ts';
import type { Logprobs, Ops, Tensor } from '../ops/ops.ts';
import type { PromptScoring, ScheduledStep } from '../scheduler/scheduled-step.ts';

/** Rows whose logits are in memory at the same time: with a vocabulary of 152k they take 39 MB. */
const ROWS_AT_ONCE = 64;

/** One list of pieces a sequence of `step`, empty where nobody asked. */
export function scorePrompts(
  ops: Ops,
  model: Model,
  hidden: Tensor,
  step: ScheduledStep,
  queryStarts: Int32Array,
): Logprobs[][] {
  return step.sequences.map(({ promptScoring }, index) =>
    promptScoring === null ? [] : scorePrompt(ops, model, hidden, promptScoring, queryStarts[index]!),
  );
}

function scorePrompt(
  ops: Ops,
  model: Model,
  hidden: Tensor,
  { firstToken, tokenIds, numTop }: PromptScoring,
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
