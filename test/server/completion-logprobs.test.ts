import { describe, expect, it } from 'vitest';
import type { PositionLogprobs, TokenLogprob } from '../../src/engine/inference-engine.ts';
import { resolveSamplingParams } from '../../src/sampling/sampling-params.ts';
import { chatLogprobs } from '../../src/server/chat/chat-logprobs.ts';
import { CompletionLogprobsWriter } from '../../src/server/completion/completion-logprobs.ts';
import { finiteLogprob, promptLogprobs, tokenText } from '../../src/server/logprobs.ts';
import { newRequest } from '../helpers/new-request.ts';

function token(tokenId: number, logprob: number, rank: number, text: string | null): TokenLogprob {
  return { tokenId, logprob, rank, token: text === null ? null : { text, bytes: Buffer.from(text) } };
}

const IMPOSSIBLE: PositionLogprobs = {
  ...token(3, -Infinity, 9, 'é'),
  top: [token(5, -0.5, 1, 'b'), token(3, -Infinity, 9, 'é')],
};

describe('log-probabilities on the wire', () => {
  it('have -9999 where a token cannot come, because JSON has no infinity', () => {
    expect([-Infinity, -1e9, -9999, -0.5, 0].map(finiteLogprob)).toEqual([-9999, -9999, -9999, -0.5, 0]);
    expect([...promptLogprobs([null, IMPOSSIBLE])]).toEqual([
      null,
      {
        3: { logprob: -9999, rank: 9, decoded_token: 'é' },
        5: { logprob: -0.5, rank: 1, decoded_token: 'b' },
      },
    ]);
    expect([...chatLogprobs([IMPOSSIBLE], false).content]).toEqual([
      {
        token: 'é',
        logprob: -9999,
        bytes: [0xc3, 0xa9],
        top_logprobs: [
          { token: 'b', logprob: -0.5, bytes: [98] },
          { token: 'é', logprob: -9999, bytes: [0xc3, 0xa9] },
        ],
      },
    ]);
  });

  it('have -9999 in the lists of a completion, too', () => {
    const prompt = {
      ...newRequest({ promptTokenIds: [1] }),
      arrivedAt: 0,
      params: resolveSamplingParams({}),
      adapter: null,
      answer: null,
      transferKey: null,
      resume: null,
    };
    const options = { tokenizer: null, prompt, echo: null, areTokensIds: true };
    const lists = new CompletionLogprobsWriter(options).lists(null, [
      { ...IMPOSSIBLE, top: [token(5, Number.NEGATIVE_INFINITY, 8, 'b')] },
    ]);
    expect([...lists.token_logprobs]).toEqual([-9999]);
    expect([...lists.top_logprobs]).toEqual([{ 'token_id:3': -9999, 'token_id:5': -9999 }]);
  });

  it('spell a token as its id where that is asked for, or where it has no text', () => {
    expect(tokenText(token(7, -1, 1, 'a'), false)).toBe('a');
    expect(tokenText(token(7, -1, 1, 'a'), true)).toBe('token_id:7');
    expect(tokenText(token(7, -1, 1, null), false)).toBe('token_id:7');
    const [entry] = chatLogprobs([{ ...token(7, -1, 1, null), top: [] }], false).content;
    expect(entry).toEqual({ token: 'token_id:7', logprob: -1, bytes: null, top_logprobs: [] });
  });
});
