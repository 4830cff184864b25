// Log-probabilities of tokens that a request names, in the place of those of the most probable ones.

import type { Ops, Pending, Tensor, TokenIds } from '../ops/ops.ts';
import type { Logprobs } from '../sampling/logprobs.ts';

/**
 * Of one token at each of `rows`, and of `chosen` besides; of the `numTop` most probable ones where `chosen` is null.
 * @param logits [rows, vocab] f32
 */
export function logprobsBeside(
  ops: Ops,
  logits: Tensor,
  rows: Int32Array,
  tokens: TokenIds,
  numTop: number,
  chosen: readonly number[] | null,
): Pending<Logprobs> {
  if (chosen === null) return ops.logprobs(logits, rows, tokens, numTop);
  const own = ops.logprobs(logits, rows, tokens, 0);
  const repeated = Int32Array.from({ length: rows.length * chosen.length }, (_, at) => {
    return rows[Math.floor(at / chosen.length)]!;
  });
  const ids = repeated.map((_, at) => chosen[at % chosen.length]!);
  const others = ops.logprobs(logits, repeated, { ids, sampled: null }, 0);
  return {
    read: () => {
      const { tokenIds: topIds, logprobs: topLogprobs, ranks: topRanks } = others.read();
      return { ...own.read(), numTop: chosen.length, topIds, topLogprobs, topRanks };
    },
  };
}
