// Tokens of one sample become text: detokenised as they come, searched for stop strings, held back where a stop
// string might be growing. The inference engine has one a sample.

import { ModelOutputError } from '../errors.ts';
import type { Logprobs } from '../ops/ops.ts';
import type { SamplingParams } from '../sampling/sampling-params.ts';
import type { TokenOutput } from '../scheduler/scheduler.ts';
import type { DecodeStream, Tokenizer } from '../tokenizer/tokenizer.ts';
import { wholeCharacters } from '../util/whole-characters.ts';
import { describeLogprobs, type PositionLogprobs } from './token-logprobs.ts';

export type FinishReason = 'stop' | 'length';

/** What one engine step added to one sample of a request. */
export interface OutputDelta {
  /** Which of the n samples. */
  readonly index: number;
  readonly text: string;
  readonly tokenIds: readonly number[];
  /** Prompt tokens that came from the prefix cache. */
  readonly numCachedTokens: number;
  /** One entry a token; null where nobody asked. */
  readonly logprobs: readonly PositionLogprobs[] | null;
  /** One entry a token of the prompt, null for the first of them; only with the first delta of the first sample. */
  readonly promptLogprobs: readonly (PositionLogprobs | null)[] | null;
  /** Null until the last delta of this sample. */
  readonly finish_reason: FinishReason | null;
  readonly stop_reason: number | string | null;
}

/** Text after a search for stop strings. */
interface Scan {
  readonly text: string;
  readonly stop: string | null;
}

/** What of a request its output depends on. */
export interface OutputRequest {
  readonly params: SamplingParams;
  readonly promptTokenIds: readonly number[];
}

export class OutputProcessor {
  readonly #index: number;
  readonly #params: SamplingParams;
  /** Null where no text is made: token ids out. */
  readonly #decoder: DecodeStream | null;
  /** UTF-16 units that may be the beginning of a stop string; one more where they begin within a character. */
  readonly #numHeldBack: number;
  readonly #tokenizer: Tokenizer | null;
  readonly #numPromptTokens: number;
  #heldBack = '';
  #numTokens = 0;

  /** @param tokenizer null makes no text. */
  constructor(index: number, request: OutputRequest, tokenizer: Tokenizer | null) {
    const { params, promptTokenIds } = request;
    this.#index = index;
    this.#params = params;
    this.#tokenizer = tokenizer;
    this.#numPromptTokens = promptTokenIds.length;
    const options = {
      skipSpecialTokens: params.skip_special_tokens,
      spacesBetweenSpecialTokens: params.spaces_between_special_tokens,
      promptTokenIds,
    };
    this.#decoder = params.detokenize ? (tokenizer?.decodeStream(options) ?? null) : null;
    this.#numHeldBack = Math.max(0, ...params.stop.map((stop) => stop.length - 1));
  }

  /**
   * The delta that `output` makes; `finish_reason` "stop" may come from a stop string before the engine ends.
   * @throws ModelOutputError where the model gave no token.
   */
  process(output: TokenOutput): OutputDelta {
    const { finish } = output;
    if (finish?.reason === 'error') {
      throw new ModelOutputError(
        `the model computed NaN or infinite logits for token ${this.#numTokens + 1} of the answer, after ` +
          `${this.#numPromptTokens} tokens of prompt: its numbers grow too large on this text (--dtype float32 may ` +
          'help where it computes in bfloat16), or its weights are damaged',
      );
    }
    this.#numTokens += 1;
    const added = this.#decode(output);
    const scan = this.#scan(added, finish !== null);
    if (scan.stop !== null) return this.#delta(scan.text, output, 'stop', scan.stop);
    return this.#delta(scan.text, output, finish?.reason ?? null, finish?.stopTokenId ?? null);
  }

  /** An end token is no text, nor is a stop token unless it was asked for. */
  #decode({ tokenId, finish }: TokenOutput): string {
    if (this.#decoder === null) return '';
    const isWanted = finish?.stopTokenId != null && this.#params.include_stop_str_in_output;
    const isText = finish?.reason !== 'stop' || isWanted;
    const text = isText ? this.#decoder.push([tokenId]) : '';
    return finish === null ? text : text + this.#decoder.flush();
  }

  /** A match may begin in what was held back but must end in what was added: what came before was searched, or too early. */
  #scan(added: string, isLast: boolean): Scan {
    const text = this.#heldBack + added;
    const { stop: stops, include_stop_str_in_output: isIncluded, min_tokens } = this.#params;
    // One token may complete several: the one that is complete first counts, however the text is cut into tokens.
    let first: { readonly stop: string; readonly start: number; readonly end: number } | null = null;
    for (const stop of this.#numTokens < min_tokens ? [] : stops) {
      const start = text.indexOf(stop, Math.max(0, this.#heldBack.length - stop.length + 1));
      const end = start + stop.length;
      if (start >= 0 && (first === null || end < first.end)) first = { stop, start, end };
    }
    if (first !== null) {
      return { text: text.slice(0, isIncluded ? first.end : first.start), stop: first.stop };
    }
    const ready = isLast ? text : wholeCharacters(text, text.length - this.#numHeldBack);
    this.#heldBack = text.slice(ready.length);
    return { text: ready, stop: null };
  }

  #delta(
    text: string,
    output: TokenOutput,
    finish_reason: FinishReason | null,
    stop_reason: number | string | null,
  ): OutputDelta {
    const { tokenId, numCachedTokens, logprobs, promptLogprobs: prompt } = output;
    const describe = (rows: Logprobs): PositionLogprobs[] => describeLogprobs(rows, this.#tokenizer);
    return {
      index: this.#index,
      text,
      tokenIds: [tokenId],
      numCachedTokens,
      logprobs: logprobs === null ? null : describe(logprobs),
      promptLogprobs: prompt === null ? null : [null, ...prompt.flatMap(describe)],
      finish_reason,
      stop_reason,
    };
  }
}
