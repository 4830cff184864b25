// What `LLM` gives back for one prompt.

import type { FinishReason, OutputDelta } from '../engine/inference-engine.ts';

/** One of the n samples of a prompt. */
export interface CompletionOutput {
  readonly index: number;
  readonly text: string;
  /** With the end or stop token, where one ended it. */
  readonly token_ids: readonly number[];
  readonly finish_reason: FinishReason;
  /** The stop string or stop token that ended it; null for the end token and for length. */
  readonly stop_reason: number | string | null;
}

export interface RequestOutput {
  readonly request_id: string;
  /** Null where the prompt was given as token ids. */
  readonly prompt: string | null;
  readonly prompt_token_ids: readonly number[];
  /** n entries, in order of their index. */
  readonly outputs: readonly CompletionOutput[];
}

/** Collects the deltas of one request, sample by sample. */
export class OutputCollector {
  readonly #texts: string[];
  readonly #tokenIds: number[][];
  readonly #last: OutputDelta[] = [];

  constructor(numSamples: number) {
    this.#texts = Array.from({ length: numSamples }, () => '');
    this.#tokenIds = Array.from({ length: numSamples }, () => []);
  }

  add(delta: OutputDelta): void {
    this.#texts[delta.index] += delta.text;
    this.#tokenIds[delta.index]!.push(...delta.tokenIds);
    this.#last[delta.index] = delta;
  }

  get numTokens(): number {
    return this.#tokenIds.reduce((sum, ids) => sum + ids.length, 0);
  }

  /** Every sample must have got its last delta. */
  finish(): CompletionOutput[] {
    return this.#last.map(({ index, finish_reason, stop_reason }) => {
      if (finish_reason === null) throw new Error(`sample ${index} has not finished`);
      return {
        index,
        text: this.#texts[index]!,
        token_ids: this.#tokenIds[index]!,
        finish_reason,
        stop_reason,
      };
    });
  }
}
