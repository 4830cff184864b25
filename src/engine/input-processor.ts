// A request as it was asked for becomes one that the engine can run: tokenised, checked against the model, with
// every default filled in. The inference engine is its only caller.

import { InvalidRequestError } from '../errors.ts';
import type { SamplingParams } from '../sampling/sampling-params.ts';
import type { NewRequest } from '../scheduler/request.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';

export type Prompt =
  | { readonly text: string; readonly addSpecialTokens: boolean }
  | { readonly tokenIds: readonly number[] };

export interface GenerationRequest {
  readonly prompt: Prompt;
  readonly params: SamplingParams;
}

/** A request that has passed every check: it can no longer be refused for what it says. */
export interface PreparedRequest {
  readonly promptTokenIds: readonly number[];
  readonly params: SamplingParams;
}

/** What of the model the checks need. */
export interface ModelLimits {
  readonly maxModelLen: number;
  readonly vocabSize: number;
  /** The first one ends a sequence silently; the others are reported as stop_reason. */
  readonly eosTokenIds: readonly number[];
}

/**
 * Tokenises and checks.
 * @throws InvalidRequestError for an empty or too long prompt, an id outside the vocabulary, or text without a tokenizer.
 */
export async function prepareRequest(
  request: GenerationRequest,
  tokenizer: Tokenizer | null,
  limits: ModelLimits,
): Promise<PreparedRequest> {
  const { params } = request;
  if (tokenizer === null && params.stop.length > 0) {
    throw new InvalidRequestError(
      'stop strings need a tokenizer, and this server runs without one: use stop_token_ids',
      {
        param: 'stop',
      },
    );
  }
  const promptTokenIds = await tokenise(request.prompt, tokenizer, limits.maxModelLen);
  checkIds(promptTokenIds, limits.vocabSize, 'prompt');
  checkIds(params.stop_token_ids, limits.vocabSize, 'stop_token_ids');
  checkLength(promptTokenIds.length, limits.maxModelLen);
  return { promptTokenIds, params };
}

/** One engine request for each of the n samples; `firstId` and the ids after it must be unused. */
export function toEngineRequests(
  request: PreparedRequest,
  limits: ModelLimits,
  firstId: number,
  defaultSeed: number,
): NewRequest[] {
  const { params, promptTokenIds } = request;
  const [eosTokenId = null, ...otherEos] = params.ignore_eos ? [] : limits.eosTokenIds;
  const room = limits.maxModelLen - promptTokenIds.length;
  const stop = {
    eosTokenId,
    stopTokenIds: [...params.stop_token_ids, ...otherEos],
    maxTokens: Math.min(room, params.max_tokens ?? room),
  };
  return Array.from({ length: params.n }, (_, sample) => ({
    id: firstId + sample,
    promptTokenIds,
    stop,
    sampling: {
      temperature: params.temperature,
      topK: params.top_k,
      topP: params.top_p,
      minP: params.min_p,
      seed: params.seed ?? defaultSeed,
      sample,
    },
  }));
}

async function tokenise(
  prompt: Prompt,
  tokenizer: Tokenizer | null,
  maxModelLen: number,
): Promise<readonly number[]> {
  if ('tokenIds' in prompt) return prompt.tokenIds;
  if (tokenizer === null) {
    throw new InvalidRequestError('the prompt must be token ids: the model is served without a tokenizer', {
      param: 'prompt',
    });
  }
  // Megabytes of text would keep a core busy for seconds, only to be refused.
  const minTokens = tokenizer.minTokens(prompt.text);
  if (minTokens >= maxModelLen) throw tooLong(`at least ${minTokens}`, maxModelLen);
  return tokenizer.encode(prompt.text, { addSpecialTokens: prompt.addSpecialTokens });
}

function checkIds(ids: readonly number[], vocabSize: number, param: string): void {
  const wrong = ids.findIndex((id) => !Number.isInteger(id) || id < 0 || id >= vocabSize);
  if (wrong < 0) return;
  throw new InvalidRequestError(
    `${param}: token ids must be integers from 0 to ${vocabSize - 1}, got ${ids[wrong]} at index ${wrong}`,
    { param },
  );
}

function checkLength(numTokens: number, maxModelLen: number): void {
  if (numTokens === 0) {
    throw new InvalidRequestError('the prompt has no tokens; give at least one', { param: 'prompt' });
  }
  if (numTokens >= maxModelLen) throw tooLong(String(numTokens), maxModelLen);
}

function tooLong(numTokens: string, maxModelLen: number): InvalidRequestError {
  return new InvalidRequestError(
    `the prompt has ${numTokens} tokens, the model's context is ${maxModelLen}: ` +
      `at most ${maxModelLen - 1} leave room for an answer`,
    { param: 'prompt' },
  );
}
