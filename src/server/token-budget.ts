// Whether what a request asks for fits into the model's context. The generation routes ask.

import type { PreparedRequest } from '../engine/inference-engine.ts';
import { InvalidRequestError } from '../errors.ts';

/** @throws InvalidRequestError for more tokens than any prompt would leave room for; `field` is the one that asked. */
export function checkMaxTokens(requested: number, field: string, maxModelLen: number): void {
  if (requested <= maxModelLen) return;
  throw new InvalidRequestError(
    `${field} must be at most ${maxModelLen}, the context length of this model, got ${requested}`,
    { param: field },
  );
}

/** @throws InvalidRequestError where prompt and requested tokens together do not fit; 0 requests whatever is left. */
export function checkBudget(
  prompts: readonly PreparedRequest[],
  requested: number,
  maxModelLen: number,
): void {
  for (const { promptTokenIds } of prompts) {
    if (promptTokenIds.length + requested <= maxModelLen) continue;
    throw new InvalidRequestError(
      `The prompt has ${promptTokenIds.length} tokens and max_tokens asks for ${requested} more, but the context of ` +
        `this model is ${maxModelLen}: shorten the prompt to ${Math.max(0, maxModelLen - requested)} tokens or lower max_tokens`,
      { param: 'input_tokens' },
    );
  }
}
