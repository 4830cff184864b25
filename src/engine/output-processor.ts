// Turns the tokens of one sample into text: detokenises them as they come, searches for stop strings, and holds text
// back while it may be the beginning of one.

import { InvalidRequestError, ModelOutputError } from '../errors.ts';
import type { AnswerReader } from '../parsers/answer-formats.ts';
import type { AnswerParser } from '../parsers/answer-parser.ts';
import type { AnswerPart } from '../parsers/answer-parts.ts';
import type { FinishReason } from '../sampling/finish-reason.ts';
import type { Logprobs } from '../sampling/logprobs.ts';
import type { SamplingParams } from '../sampling/sampling-params.ts';
import type { TokenOutput } from '../scheduler/scheduler.ts';
import type { DecodeStream, Tokenizer } from '../tokenizer/tokenizer.ts';
import { wholeCharacters } from '../util/whole-characters.ts';
import { describeLogprobs, type PositionLogprobs } from './token-logprobs.ts';

/** What one engine step added to one sample of a request. */
export interface OutputDelta {
  /** Which of the n samples. */
  readonly index: number;
  readonly text: string;
  /** What the text so far adds to the parts of the answer; null where it is not read. */
  readonly parts: readonly AnswerPart[] | null;
  readonly tokenIds: readonly number[];
  /** Of them those of thoughts. */
  readonly numReasoningTokens: number;
  /** Prompt tokens that came from the prefix cache. */
  readonly numCachedTokens: number;
  /** One entry a token; null where none were asked for. */
  readonly logprobs: readonly PositionLogprobs[] | null;
  /** One entry a token of the prompt, null for the first of them; only with the first delta of the first sample. */
  readonly promptLogprobs: readonly (PositionLogprobs | null)[] | null;
  /** Null until the last delta of this sample. */
  readonly finish_reason: FinishReason | null;
  readonly stop_reason: number | string | null;
  /** Whether something else than the model ended the answer within a call. */
  readonly isCallCut: boolean;
}

/** What of a text can be shown, and the stop string that ended it. */
interface Scan {
  readonly text: string;
  readonly stop: string | null;
}

interface OutputRequest {
  readonly params: SamplingParams;
  readonly promptTokenIds: readonly number[];
  /** Reads the parts of the answer; without it the answer is plain text. */
  readonly answer?: AnswerReader | null;
}

/** What tokens add to an answer. */
interface Added {
  text: string;
  parts: AnswerPart[] | null;
  numTokens: number;
  numReasoningTokens: number;
}

interface Ending {
  readonly isLast: boolean;
  /** Something else than the model ended the answer. */
  readonly isCut: boolean;
}

export class OutputProcessor {
  readonly #index: number;
  readonly #params: SamplingParams;
  /** Made with the first token: it reads the ends of the prompt, too much to do for all samples of a request at once. */
  #decoder: DecodeStream | null = null;
  /** UTF-16 units that may be the beginning of a stop string; one more where they begin within a character. */
  readonly #numHeldBack: number;
  readonly #tokenizer: Tokenizer | null;
  readonly #promptTokenIds: readonly number[];
  /** Null where the answer is plain text. */
  readonly #parser: AnswerParser | null;
  readonly #visibleTokens: ReadonlySet<string> | undefined;
  readonly #callEnd: string | null;
  #heldBack = '';
  #numTokens = 0;

  /** @param tokenizer null makes no text. */
  constructor(index: number, request: OutputRequest, tokenizer: Tokenizer | null) {
    const { params, promptTokenIds, answer } = request;
    this.#index = index;
    this.#params = params;
    this.#tokenizer = tokenizer;
    this.#promptTokenIds = promptTokenIds;
    this.#parser = answer?.open() ?? null;
    this.#visibleTokens = answer?.visibleTokens;
    this.#callEnd = answer?.callEnd ?? null;
    this.#numHeldBack = Math.max(0, ...params.stop.map((stop) => stop.length - 1));
  }

  /**
   * The delta that `output` makes; `finish_reason` "stop" may come from a stop string before the engine ends. Tokens
   * after a stop string are dropped.
   * @throws ModelOutputError where the model gave no token.
   * @throws InvalidRequestError where the constraint of the request allows none.
   */
  process(output: TokenOutput): OutputDelta {
    const { tokenIds, finish } = output;
    const reason = finish?.reason ?? null;
    if (reason === 'brokenLogits') throw this.#brokenLogits();
    if (reason === 'nothingAllowed') throw this.#nothingAllowed();
    if (reason === 'constraintTooCostly') throw this.#constraintTooCostly();
    const added: Added = { text: '', parts: this.#parser && [], numTokens: 0, numReasoningTokens: 0 };
    for (const [index, tokenId] of tokenIds.entries()) {
      this.#numTokens += 1;
      const finishHere = index === tokenIds.length - 1 ? finish : null;
      const scan = this.#scan(this.#decode(tokenId, finishHere), finishHere !== null);
      const isLast = scan.stop !== null || finishHere !== null;
      this.#add(added, scan.text, { isLast, isCut: this.#isCutBy(scan.stop, finishHere) });
      if (scan.stop !== null) return this.#delta(added, output, 'stop', scan.stop);
    }
    return this.#delta(added, output, reason, finish?.stopTokenId ?? null);
  }

  /** The bounds of the request cut an answer off, and what it stops at, but for the mark that ends calls; the model's own end does not. */
  #isCutBy(stop: string | null, finish: TokenOutput['finish']): boolean {
    const tokenId = finish?.stopTokenId ?? null;
    const isAsked = tokenId !== null && this.#params.stop_token_ids.includes(tokenId);
    const mark = stop ?? (isAsked ? this.#tokenizer?.describe(tokenId).text : null);
    return mark == null ? finish !== null && finish.reason !== 'stop' : mark !== this.#callEnd;
  }

  /** A token belongs to a thought that it begins, goes on with, or ends. */
  #add(added: Added, text: string, { isLast, isCut }: Ending): void {
    added.text += text;
    added.numTokens += 1;
    if (this.#parser === null) return;
    const isReasoning = this.#parser.isReasoning;
    added.parts?.push(...this.#parser.push(text));
    if (isLast) added.parts?.push(...this.#parser.finish(isCut));
    if (isReasoning || this.#parser.isReasoning) added.numReasoningTokens += 1;
  }

  #brokenLogits(): ModelOutputError {
    return new ModelOutputError(
      `the model computed NaN or infinite logits for token ${this.#numTokens + 1} of the answer, after ` +
        `${this.#promptTokenIds.length} tokens of prompt: its numbers grow too large on this text (--dtype float32 may ` +
        'help, and bfloat16 where it computes in float16), or its weights are damaged',
    );
  }

  #nothingAllowed(): InvalidRequestError {
    const also = this.#params.allowed_token_ids === null ? '' : ' and allowed_token_ids';
    return this.#constraintError(
      (field) =>
        `no token can follow the first ${this.#numTokens} of the answer: the vocabulary has none that ${field}${also} would allow`,
    );
  }

  #constraintTooCostly(): InvalidRequestError {
    return this.#constraintError(
      (field) =>
        `${field} can be read in so many ways that it takes too long to find out what may follow the first ` +
        `${this.#numTokens} tokens of the answer: make it less ambiguous, or smaller`,
    );
  }

  #constraintError(message: (field: string) => string): InvalidRequestError {
    const field = this.#params.constraint?.field ?? 'structured_outputs';
    return new InvalidRequestError(message(field), { param: field });
  }

  /** An end token is no text, nor is a stop token unless it was asked for. */
  #decode(tokenId: number, finish: TokenOutput['finish']): string {
    if (this.#tokenizer === null || !this.#params.detokenize) return '';
    this.#decoder ??= this.#tokenizer.decodeStream({
      skipSpecialTokens: this.#params.skip_special_tokens,
      spacesBetweenSpecialTokens: this.#params.spaces_between_special_tokens,
      visibleTokens: this.#visibleTokens,
      promptTokenIds: this.#promptTokenIds,
    });
    const isWanted = finish?.stopTokenId != null && this.#params.include_stop_str_in_output;
    const isText = finish?.reason !== 'stop' || isWanted;
    const text = isText ? this.#decoder.push([tokenId]) : '';
    return finish === null ? text : text + this.#decoder.flush();
  }

  /** A match may begin in what was held back but must end in what was added: what came before was searched, or too early. */
  #scan(added: string, isLast: boolean): Scan {
    const text = this.#heldBack + added;
    const { stop: stops, include_stop_str_in_output: isIncluded, min_tokens } = this.#params;
    // One token may complete several. The one that ends first counts, however the text is cut into tokens.
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
    { text, parts, numTokens, numReasoningTokens }: Added,
    output: TokenOutput,
    finish_reason: FinishReason | null,
    stop_reason: number | string | null,
  ): OutputDelta {
    const { numCachedTokens, logprobs, promptLogprobs: prompt } = output;
    const describe = (rows: Logprobs): PositionLogprobs[] => describeLogprobs(rows, this.#tokenizer);
    return {
      index: this.#index,
      text,
      parts,
      numReasoningTokens,
      tokenIds: output.tokenIds.slice(0, numTokens),
      numCachedTokens,
      logprobs: logprobs === null ? null : describe(logprobs).slice(0, numTokens),
      promptLogprobs: prompt === null ? null : [null, ...prompt.flatMap(describe)],
      finish_reason,
      stop_reason,
      isCallCut: this.#parser?.isCallCut ?? false,
    };
  }
}
