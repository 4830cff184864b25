// Log-probabilities as both endpoints write them: the spelling of tokens, the least value, the prompt's own.

import type { PositionLogprobs, TokenLogprob } from '../engine/inference-engine.ts';
import { lazyList } from '../http/json-pieces.ts';

/** JSON has no infinity: the log-probability of an impossible token is this. */
const LEAST_LOGPROB = -9999;

export function finiteLogprob(logprob: number): number {
  return Math.max(logprob, LEAST_LOGPROB);
}

/** The token's text, or `token_id:5` where ids were asked for or no text is known. */
export function tokenText(
  { tokenId, token }: Pick<TokenLogprob, 'tokenId' | 'token'>,
  isAsId: boolean,
): string {
  return isAsId || token === null ? `token_id:${tokenId}` : token.text;
}

/** One entry a token of the prompt, by token id; null for the first, which nothing comes before. */
export function promptLogprobs(positions: readonly (PositionLogprobs | null)[]) {
  return lazyList(positions, (position) => position && byTokenId(position));
}

function byTokenId(position: PositionLogprobs) {
  const entries = [...position.top, position].map(({ tokenId, logprob, rank, token }) => [
    tokenId,
    { logprob: finiteLogprob(logprob), rank, decoded_token: token?.text ?? null },
  ]);
  return Object.fromEntries(entries);
}
