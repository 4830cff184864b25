// Log-probabilities of a chat's choice: a list of tokens, each with its bytes and the most probable ones at its place.
// The chat format calls it.

import type { PositionLogprobs, TokenLogprob } from '../../engine/inference-engine.ts';
import type { ChatLogprobs, ChatTokenLogprob } from '../protocol/chat-completion.ts';
import { finiteLogprob, tokenText } from '../protocol/logprobs.ts';

export function chatLogprobs(positions: readonly PositionLogprobs[], areTokensIds: boolean): ChatLogprobs {
  const describe = (one: TokenLogprob): ChatTokenLogprob => ({
    token: tokenText(one, areTokensIds),
    logprob: finiteLogprob(one.logprob),
    bytes: one.token === null ? null : [...one.token.bytes],
  });
  return {
    content: positions.map((position) => ({
      ...describe(position),
      top_logprobs: position.top.map(describe),
    })),
    refusal: null,
  };
}
