// What a request has cost, and why an answer ended: parts of the answers of both endpoints.

export type FinishReason = 'stop' | 'length';

export interface Usage {
  readonly prompt_tokens: number;
  readonly total_tokens: number;
  readonly completion_tokens: number;
  readonly prompt_tokens_details: null;
}

/** Prompt tokens count once a prompt, whatever n is. */
export function usageOf(promptTokens: number, completionTokens: number): Usage {
  return {
    prompt_tokens: promptTokens,
    total_tokens: promptTokens + completionTokens,
    completion_tokens: completionTokens,
    prompt_tokens_details: null,
  };
}
