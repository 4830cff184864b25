// Whether the token just sampled ends its sequence. The scheduler asks once a token.

import type { Request } from './request.ts';

export interface Finish {
  readonly reason: 'stop' | 'length';
  /** The stop token that was asked for; null for the end token and for length. */
  readonly stopTokenId: number | null;
}

/** Checks in the protocol's order: end token, stop tokens, length. */
export function checkStop(request: Request): Finish | null {
  const tokenId = request.tokens.at(-1)!;
  const { eosTokenId, stopTokenIds, minTokens, maxTokens } = request.stop;
  const mayStop = request.numOutputTokens >= minTokens;
  if (mayStop && tokenId === eosTokenId) return { reason: 'stop', stopTokenId: null };
  if (mayStop && stopTokenIds.includes(tokenId)) return { reason: 'stop', stopTokenId: tokenId };
  if (request.numOutputTokens >= maxTokens) return { reason: 'length', stopTokenId: null };
  return null;
}
