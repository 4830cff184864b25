// Of which known tokens a step reports log-probabilities: tokens of the prompt, and of an answer that is resumed. Each
// of them is reported once in the life of a request, by the step that computes the token before it.

import type { Request } from './request.ts';
import type { LogprobTargets } from './scheduled-step.ts';

/** Takes the prompt tokens whose predecessors are computed now. */
export function takePromptTargets(request: Request, firstPosition: number): LogprobTargets | null {
  const { numPromptLogprobs, nextPromptTarget: start, promptLength } = request;
  const end = Math.min(promptLength, request.numComputedTokens + 1);
  if (numPromptLogprobs === null || start >= end) return null;
  request.nextPromptTarget = end;
  return targets(request, firstPosition, start, end, numPromptLogprobs);
}

/** The same for the tokens that the answer resumes. */
export function takeResumedTargets(request: Request, firstPosition: number): LogprobTargets | null {
  const { promptLength, numResumed, nextResumedTarget } = request;
  const { numLogprobs, logprobTokenIds: chosen = null } = request.sampling;
  const start = promptLength + nextResumedTarget;
  const end = Math.min(promptLength + numResumed, request.numComputedTokens + 1);
  if (numLogprobs === null || start >= end) return null;
  request.nextResumedTarget = end - promptLength;
  return { ...targets(request, firstPosition, start, end, numLogprobs), chosen };
}

function targets(
  { tokens }: Request,
  firstPosition: number,
  start: number,
  end: number,
  numTop: number,
): LogprobTargets {
  return { firstRow: start - 1 - firstPosition, tokenIds: tokens.slice(start, end), numTop };
}
