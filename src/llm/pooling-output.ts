// The results of `LLM.embed` and `LLM.score`, in the spelling of other engines.

/** What `LLM.embed` gives for one prompt. */
export interface EmbeddingRequestOutput {
  readonly request_id: string;
  /** Null where the prompt was given as token ids. */
  readonly prompt: string | null;
  readonly prompt_token_ids: readonly number[];
  readonly outputs: { readonly embedding: Float32Array };
}

/** What `LLM.score` gives for one pair of texts. */
export interface ScoringRequestOutput {
  readonly request_id: string;
  readonly outputs: { readonly score: number };
}
