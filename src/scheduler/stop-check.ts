// Whether new tokens end their request, and which of them still belong to it.

import type { FinishReason } from '../sampling/finish-reason.ts';
import type { StopRule } from './request.ts';

export interface Finish {
  /** `error`: the model gave no logits to sample from. */
  readonly reason: FinishReason | 'error';
  /** The stop token that was asked for; null for the end token and for length. */
  readonly stopTokenId: number | null;
}

/** The tokens up to the one that ends the request, all of them where none does. */
export interface KeptTokens {
  readonly tokenIds: readonly number[];
  /** Null where the request goes on. */
  readonly finish: Finish | null;
}

/** @param numOutputTokens of the answer, before `tokenIds`. */
export function keepUntilStop(
  rule: StopRule,
  tokenIds: readonly number[],
  numOutputTokens: number,
): KeptTokens {
  for (let index = 0; index < tokenIds.length; index += 1) {
    const finish = checkStop(rule, tokenIds[index]!, numOutputTokens + index + 1);
    if (finish !== null) return { tokenIds: tokenIds.slice(0, index + 1), finish };
  }
  return { tokenIds, finish: null };
}

/** Checks in the protocol's order: end token, stop tokens, length. */
function checkStop(rule: StopRule, tokenId: number, numTokens: number): Finish | null {
  const { eosTokenId, stopTokenIds, minTokens, maxTokens } = rule;
  const mayStop = numTokens >= minTokens;
  if (mayStop && tokenId === eosTokenId) return { reason: 'stop', stopTokenId: null };
  if (mayStop && stopTokenIds.includes(tokenId)) return { reason: 'stop', stopTokenId: tokenId };
  if (numTokens >= maxTokens) return { reason: 'length', stopTokenId: null };
  return null;
}
