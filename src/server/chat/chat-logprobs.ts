// Log-probabilities of a chat's choice: a list of tokens, each with its bytes and the most probable ones at its position.

import type { PositionLogprobs, TokenLogprob } from '../../engine/inference-engine.ts';
import { finiteLogprob, tokenText } from '../logprobs.ts';
import type { ChatLogprobs, ChatTokenLogprob } from '../protocol/chat-completion.ts';

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
