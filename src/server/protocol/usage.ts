// What a request has cost, and why an answer ended: parts of the answers of both endpoints.

export type FinishReason = 'stop' | 'length';

export interface Usage {
  readonly prompt_tokens: number;
  readonly total_tokens: number;
  readonly completion_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number } | null;
}

/**
 * Prompt tokens count once a prompt, whatever n is.
 * @param cachedTokens those of them that came from the prefix cache; null tells nothing of it.
 */
export function usageOf(promptTokens: number, completionTokens: number, cachedTokens: number | null): Usage {
  return {
    prompt_tokens: promptTokens,
    total_tokens: promptTokens + completionTokens,
    completion_tokens: completionTokens,
    prompt_tokens_details: cachedTokens === null ? null : { cached_tokens: cachedTokens },
  };
}
