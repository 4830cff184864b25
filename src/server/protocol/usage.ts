// Usage on the wire: the tokens that a request cost.

export type FinishReason = 'stop' | 'length';

export interface Usage {
  readonly prompt_tokens: number;
  readonly total_tokens: number;
  readonly completion_tokens: number;
  /** Left out where nothing is to be told of the prefix cache. */
  readonly prompt_tokens_details?: { readonly cached_tokens: number };
  readonly completion_tokens_details: typeof COMPLETION_TOKENS_DETAILS;
}

/** Kinds of tokens that this server never generates. */
const COMPLETION_TOKENS_DETAILS = {
  reasoning_tokens: 0,
  audio_tokens: 0,
  accepted_prediction_tokens: 0,
  rejected_prediction_tokens: 0,
} as const;

/**
 * Prompt tokens count once a prompt, whatever n is.
 * @param cachedTokens those of them that came from the prefix cache; null tells nothing of it.
 */
export function usageOf(promptTokens: number, completionTokens: number, cachedTokens: number | null): Usage {
  return {
    prompt_tokens: promptTokens,
    total_tokens: promptTokens + completionTokens,
    completion_tokens: completionTokens,
    ...(cachedTokens !== null && { prompt_tokens_details: { cached_tokens: cachedTokens } }),
    completion_tokens_details: COMPLETION_TOKENS_DETAILS,
  };
}
