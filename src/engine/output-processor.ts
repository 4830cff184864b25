// Tokens of one sample become text: detokenised as they come, searched for stop strings, held back where a stop
// string might be growing. The inference engine has one a sample.

import type { SamplingParams } from '../sampling/sampling-params.ts';
import type { TokenOutput } from '../scheduler/scheduler.ts';
import type { DecodeStream } from '../tokenizer/tokenizer.ts';

export type FinishReason = 'stop' | 'length';

/** What one engine step added to one sample of a request. */
export interface OutputDelta {
  /** Which of the n samples. */
  readonly index: number;
  readonly text: string;
  readonly tokenIds: readonly number[];
  /** Null until the last delta of this sample. */
  readonly finish_reason: FinishReason | null;
  readonly stop_reason: number | string | null;
}

/** Text after a search for stop strings. */
interface Scan {
  readonly text: string;
  readonly stop: string | null;
}

export class OutputProcessor {
  readonly #index: number;
  readonly #params: SamplingParams;
  /** Null where no text is made: token ids out. */
  readonly #decoder: DecodeStream | null;
  /** Characters that may be the beginning of a stop string. */
  readonly #numHeldBack: number;
  #heldBack = '';

  constructor(index: number, params: SamplingParams, decoder: DecodeStream | null) {
    this.#index = index;
    this.#params = params;
    this.#decoder = decoder;
    this.#numHeldBack = Math.max(0, ...params.stop.map((stop) => stop.length - 1));
  }

  /** The delta that `output` makes; `finish_reason` "stop" may come from a stop string before the engine ends. */
  process(output: TokenOutput): OutputDelta {
    const { finish, tokenId } = output;
    const added = this.#decode(output);
    const scan = this.#scan(added, finish !== null);
    if (scan.stop !== null) return this.#delta(scan.text, tokenId, 'stop', scan.stop);
    return this.#delta(scan.text, tokenId, finish?.reason ?? null, finish?.stopTokenId ?? null);
  }

  /** An end token is no text, nor is a stop token unless it was asked for. */
  #decode({ tokenId, finish }: TokenOutput): string {
    if (this.#decoder === null) return '';
    const isWanted = finish?.stopTokenId != null && this.#params.include_stop_str_in_output;
    const isText = finish?.reason !== 'stop' || isWanted;
    const text = isText ? this.#decoder.push([tokenId]) : '';
    return finish === null ? text : text + this.#decoder.flush();
  }

  /** A match may begin in what was held back and end in what was added, never before. */
  #scan(added: string, isLast: boolean): Scan {
    const text = this.#heldBack + added;
    const { stop: stops, include_stop_str_in_output: isIncluded } = this.#params;
    // One token may complete several: the one that is complete first counts, however the text is cut into tokens.
    let first: { readonly stop: string; readonly start: number; readonly end: number } | null = null;
    for (const stop of stops) {
      const start = text.indexOf(stop);
      const end = start + stop.length;
      if (start >= 0 && (first === null || end < first.end)) first = { stop, start, end };
    }
    if (first !== null) {
      return { text: text.slice(0, isIncluded ? first.end : first.start), stop: first.stop };
    }
    const numReady = isLast ? text.length : Math.max(0, text.length - this.#numHeldBack);
    this.#heldBack = text.slice(numReady);
    return { text: text.slice(0, numReady), stop: null };
  }

  #delta(
    text: string,
    tokenId: number,
    finish_reason: FinishReason | null,
    stop_reason: number | string | null,
  ): OutputDelta {
    return { index: this.#index, text, tokenIds: [tokenId], finish_reason, stop_reason };
  }
}
