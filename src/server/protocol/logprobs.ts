// Log-probabilities of a prompt on the wire, which both endpoints write alike.

export interface PromptLogprob {
  readonly logprob: number;
  readonly rank: number;
  readonly decoded_token: string | null;
}

/** One entry a token of the prompt, by token id; null for the first, which nothing comes before. */
export type PromptLogprobs = readonly (Readonly<Record<string, PromptLogprob>> | null)[];
