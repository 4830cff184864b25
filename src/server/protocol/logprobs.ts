// Log-probabilities on the wire, as far as both endpoints write them alike: the spelling of tokens, the least value,
// and those of the prompt. The logprobs writers of the endpoints use it.

import type { PositionLogprobs, TokenLogprob } from '../../engine/inference-engine.ts';

/** JSON has no infinity: a token that cannot come has this. */
const LEAST_LOGPROB = -9999;

export interface PromptLogprob {
  readonly logprob: number;
  readonly rank: number;
  readonly decoded_token: string | null;
}

/** One entry a token of the prompt, by token id; null for the first, which nothing comes before. */
export type PromptLogprobs = readonly (Readonly<Record<string, PromptLogprob>> | null)[];

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

export function promptLogprobs(positions: readonly (PositionLogprobs | null)[]): PromptLogprobs {
  return positions.map((position) => (position === null ? null : byTokenId(position)));
}

function byTokenId(position: PositionLogprobs): Record<string, PromptLogprob> {
  const entries = [...position.top, position].map(({ tokenId, logprob, rank, token }) => [
    tokenId,
    { logprob: finiteLogprob(logprob), rank, decoded_token: token?.text ?? null },
  ]);
  return Object.fromEntries(entries);
}
