// Usage on the wire: the tokens that a request cost.

export type Usage = ReturnType<typeof usageOf>;

/**
 * Prompt tokens count once a prompt, whatever n is.
 * @param cachedTokens those of them that came from the prefix cache; null tells nothing of it.
 * @param reasoningTokens those of the completion that were thoughts.
 */
export function usageOf(
  promptTokens: number,
  completionTokens: number,
  cachedTokens: number | null,
  reasoningTokens = 0,
) {
  return {
    prompt_tokens: promptTokens,
    total_tokens: promptTokens + completionTokens,
    completion_tokens: completionTokens,
    ...(cachedTokens !== null && { prompt_tokens_details: { cached_tokens: cachedTokens } }),
    completion_tokens_details: {
      reasoning_tokens: reasoningTokens,
      // Kinds of tokens that this server never generates.
      audio_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  };
}
