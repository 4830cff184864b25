// Log-probabilities of a chat's choice: a list of tokens, each with its bytes and the most probable ones at its position.

import type { PositionLogprobs, TokenLogprob } from '../../engine/inference-engine.ts';
import { lazyList } from '../../http/json-pieces.ts';
import { finiteLogprob, tokenText } from '../logprobs.ts';

export function chatLogprobs(positions: readonly PositionLogprobs[], areTokensIds: boolean) {
  const describe = (one: TokenLogprob) => ({
    token: tokenText(one, areTokensIds),
    logprob: finiteLogprob(one.logprob),
    bytes: one.token === null ? null : [...one.token.bytes],
  });
  return {
    content: lazyList(positions, (position) => ({
      ...describe(position),
      top_logprobs: position.top.map(describe),
    })),
    // The server never marks an answer as a refusal.
    refusal: null,
  };
}
