// A request and when its tokens came.

import type { InferenceEngine, Prompt } from '../../engine/inference-engine.ts';
import { resolveSamplingParams, type SamplingParams } from '../../sampling/sampling-params.ts';

/** Times in seconds. */
export interface TimedRequest {
  readonly numPromptTokens: number;
  readonly numOutputTokens: number;
  readonly timeToFirstToken: number;
  /** Mean of the tokens after the first one; null where there is none. */
  readonly timePerOutputToken: number | null;
}

/** Only its length ends an answer. */
export function answerParams(outputLen: number): SamplingParams {
  return resolveSamplingParams({ temperature: 1, max_tokens: outputLen, ignore_eos: true });
}

/**
 * Runs one request to its end, which only its length decides.
 * @throws InvalidRequestError where the prompt does not fit.
 */
export async function timeRequest(
  engine: InferenceEngine,
  prompt: Prompt,
  outputLen: number,
): Promise<TimedRequest> {
  const startedAt = performance.now();
  const request = await engine.prepare(prompt, answerParams(outputLen));
  let firstTokenAt = startedAt;
  let numOutputTokens = 0;
  for await (const { tokenIds } of engine.generate(request)) {
    if (numOutputTokens === 0) firstTokenAt = performance.now();
    numOutputTokens += tokenIds.length;
  }
  const decodeSeconds = (performance.now() - firstTokenAt) / 1000;
  return {
    numPromptTokens: request.promptTokenIds.length,
    numOutputTokens,
    timeToFirstToken: (firstTokenAt - startedAt) / 1000,
    timePerOutputToken: numOutputTokens > 1 ? decodeSeconds / (numOutputTokens - 1) : null,
  };
}
