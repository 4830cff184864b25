// Whether a new token ends its request.

import type { FinishReason } from '../sampling/finish-reason.ts';
import type { Refusal } from '../sampling/logit-rules.ts';
import type { StopRule } from './request.ts';

export interface Finish {
  /** `brokenLogits`: the model gave no logits to sample from. */
  readonly reason: FinishReason | 'brokenLogits' | Refusal;
  /** The stop token that was asked for; null for the end token and for length. */
  readonly stopTokenId: number | null;
}

/**
 * Checks in the protocol's order: end token, stop tokens, length.
 * @param numTokens of the answer, with this one
 * @param isOver whether the token has ended the text of a constraint, which had nothing more to come
 * @returns null where the request goes on.
 */
export function checkStop(rule: StopRule, tokenId: number, numTokens: number, isOver = false): Finish | null {
  const { eosTokenId, stopTokenIds, minTokens, maxTokens } = rule;
  const mayStop = numTokens >= minTokens || isOver;
  if (mayStop && tokenId === eosTokenId) return { reason: 'stop', stopTokenId: null };
  if (mayStop && stopTokenIds.includes(tokenId)) return { reason: 'stop', stopTokenId: tokenId };
  if (numTokens >= maxTokens) return { reason: 'length', stopTokenId: null };
  return null;
}
