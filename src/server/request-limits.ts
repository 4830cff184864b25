// How much one request may ask for: samples, and tokens of the model's context.

import type { PreparedRequest } from '../engine/inference-engine.ts';
import { InvalidRequestError } from '../errors.ts';

/** Samples of one request over all its prompts. */
const MAX_CHOICES = 1024;

/** Tokens of an answer, and the field that asked for them. */
export interface RequestedTokens {
  readonly field: string;
  /** 0 asks for whatever is left. */
  readonly count: number;
}

/** @throws InvalidRequestError where the prompts and samples together are too many. */
export function checkChoices(numPrompts: number, n: number): void {
  if (numPrompts * n <= MAX_CHOICES) return;
  throw new InvalidRequestError(
    `n times the number of prompts must be at most ${MAX_CHOICES}, got ${n} times ${numPrompts}`,
    { param: 'n' },
  );
}

/** @throws InvalidRequestError for more tokens than any prompt would leave room for. */
export function checkMaxTokens({ field, count }: RequestedTokens, maxModelLen: number): void {
  if (count <= maxModelLen) return;
  throw new InvalidRequestError(
    `${field} must be at most ${maxModelLen}, the context length of this model, got ${count}`,
    { param: field },
  );
}

/** @throws InvalidRequestError where prompt and requested tokens together do not fit. */
export function checkBudget(
  prompts: readonly PreparedRequest[],
  requested: RequestedTokens,
  maxModelLen: number,
): void {
  for (const { promptTokenIds } of prompts) {
    if (promptTokenIds.length + requested.count <= maxModelLen) continue;
    const length = promptTokenIds.length;
    throw new InvalidRequestError(
      `The prompt has ${length} tokens and ${requested.field} asks for ${requested.count} more, but the context of ` +
        `this model is ${maxModelLen}: ${remedyFor(length, requested, maxModelLen)}`,
      { param: 'input_tokens' },
    );
  }
}

/** Whichever of the two leaves room for the other; both where neither does. */
function remedyFor(promptLength: number, { field, count }: RequestedTokens, maxModelLen: number): string {
  const [forPrompt, forAnswer] = [maxModelLen - count, maxModelLen - promptLength];
  const remedies = [
    ...(forPrompt > 0 ? [`shorten the prompt to ${forPrompt} token${forPrompt === 1 ? '' : 's'}`] : []),
    ...(forAnswer > 0 ? [`lower ${field} to ${forAnswer}`] : []),
  ];
  return remedies.join(' or ') || `shorten the prompt and lower ${field}`;
}
