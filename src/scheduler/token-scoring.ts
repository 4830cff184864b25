// Which known tokens of a sequence a step compares with their logits: those of the prompt, and those of an answer that
// is resumed. The scheduler asks for each part of a sequence that it plans.

import type { Request } from './request.ts';
import type { TokenScoring } from './scheduled-step.ts';

/** Plans the prompt tokens whose predecessors are computed now, each of them once in the life of a request. */
export function scorePrompt(request: Request, firstPosition: number): TokenScoring | null {
  const { numPromptLogprobs, numPromptTokensScored: start, promptLength } = request;
  const end = Math.min(promptLength, request.numComputedTokens + 1);
  if (numPromptLogprobs === null || start >= end) return null;
  request.numPromptTokensScored = end;
  return scoring(request, firstPosition, start, end, numPromptLogprobs);
}

/** The same for the tokens that the answer resumes. */
export function scoreResumed(request: Request, firstPosition: number): TokenScoring | null {
  const { promptLength, numResumed, numResumedScored } = request;
  const { numLogprobs } = request.sampling;
  const start = promptLength + numResumedScored;
  const end = Math.min(promptLength + numResumed, request.numComputedTokens + 1);
  if (numLogprobs === null || start >= end) return null;
  request.numResumedScored = end - promptLength;
  return scoring(request, firstPosition, start, end, numLogprobs);
}

function scoring(
  { tokens }: Request,
  firstPosition: number,
  start: number,
  end: number,
  numTop: number,
): TokenScoring {
  return { firstToken: start - 1 - firstPosition, tokenIds: tokens.slice(start, end), numTop };
}
