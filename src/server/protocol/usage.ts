// Usage on the wire: the tokens that a request cost.

export type Usage = ReturnType<typeof usageOf>;

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
export function usageOf(promptTokens: number, completionTokens: number, cachedTokens: number | null) {
  return {
    prompt_tokens: promptTokens,
    total_tokens: promptTokens + completionTokens,
    completion_tokens: completionTokens,
    ...(cachedTokens !== null && { prompt_tokens_details: { cached_tokens: cachedTokens } }),
    completion_tokens_details: COMPLETION_TOKENS_DETAILS,
  };
}
