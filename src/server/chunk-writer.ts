// The common part of the writers for completions and chat completions: chunks with one choice each, usage, and `[DONE]` at
// the end of a stream.

import type { CompletedSample } from '../engine/completed-sample.ts';
import type { OutputDelta } from '../engine/inference-engine.ts';
import type { SvcError } from '../errors.ts';
import { errorBody } from '../http/errors.ts';
import { lazyList } from '../http/json-pieces.ts';
import { type Usage, usageOf } from './protocol/usage.ts';
import type { ResponseOptions } from './response-options.ts';
import type { Frames, ResponseWriter } from './response-writer.ts';

const DONE = 'data: [DONE]\n\n';
const NO_FRAMES: Promise<Frames> = Promise.resolve([]);

interface ChoiceState {
  hasBegun: boolean;
  /** With those that gave no chunk. */
  numTokens: number;
  numReasoningTokens: number;
  numCachedTokens: number;
}

export abstract class ChunkWriter implements ResponseWriter {
  protected readonly options: ResponseOptions;
  /** JSON of a chunk up to its choices: made once, so that a token costs one small JSON text. */
  readonly #chunkHead: string;
  readonly #n: number;
  readonly #choices: ChoiceState[] = [];

  constructor(object: string, options: ResponseOptions) {
    const { id, created, model, system_fingerprint } = options.head;
    const tier = options.serviceTier === null ? {} : { service_tier: options.serviceTier };
    const fields = JSON.stringify({ id, object, created, model, ...tier, system_fingerprint });
    this.options = options;
    this.#n = options.prompts[0]?.params.n ?? 1;
    this.#chunkHead = `data: ${fields.slice(0, -1)},"choices":`;
  }

  abstract body(samples: readonly CompletedSample[]): object;

  /** Chunks for a delta that is to be shown; `usage` counts the choice so far, and is null where nobody asked. */
  protected abstract chunks(
    choice: number,
    delta: OutputDelta,
    isFirst: boolean,
    usage: Usage | null,
  ): Promise<Frames>;

  open(): Frames {
    return [];
  }

  /** Whether a delta that does not end its choice has something that clients read. */
  protected shows(delta: OutputDelta): boolean {
    return delta.text !== '';
  }

  delta(choice: number, delta: OutputDelta): Promise<Frames> {
    const { tokenIds, numReasoningTokens, logprobs, finish_reason, numCachedTokens } = delta;
    const { returnTokenIds, continuousUsage } = this.options;
    this.#choices[choice] ??= { hasBegun: false, numTokens: 0, numReasoningTokens: 0, numCachedTokens };
    const state = this.#choices[choice];
    state.numTokens += tokenIds.length;
    state.numReasoningTokens += numReasoningTokens;
    state.numCachedTokens = numCachedTokens;
    // Half a character, or the beginning of a possible stop string or call: there is nothing to show yet.
    const isSilent = finish_reason === null && !returnTokenIds && logprobs === null;
    if (isSilent && !this.shows(delta)) return NO_FRAMES;
    const isFirst = !state.hasBegun;
    state.hasBegun = true;
    return this.chunks(choice, delta, isFirst, continuousUsage ? this.#usageOf(choice, state) : null);
  }

  close(): Frames {
    if (!this.options.includeUsage) return [DONE];
    const usage = this.#totalUsage(
      sum(this.#choices.map(({ numTokens }) => numTokens)),
      sum(this.#choices.map(({ numCachedTokens }, choice) => (choice % this.#n === 0 ? numCachedTokens : 0))),
      sum(this.#choices.map(({ numReasoningTokens }) => numReasoningTokens)),
    );
    return [`${this.#chunkHead}[],"usage":${JSON.stringify(usage)}}\n\n`, DONE];
  }

  fail(error: SvcError): Frames {
    return [`data: ${JSON.stringify(errorBody(error))}\n\n`, DONE];
  }

  /** @param choice JSON of its object. @param extra further fields of the chunk, each with a comma before it. */
  protected chunk(choice: string, usage: Usage | null, extra = ''): string {
    return `${this.#chunkHead}[${choice}]${extra}${this.#usageField(usage)}}\n\n`;
  }

  /** The fields that all answers in one piece have. */
  protected answer(
    object: string,
    samples: readonly CompletedSample[],
    choiceOf: (sample: CompletedSample, choice: number) => object,
  ): object {
    const { head, serviceTier: service_tier } = this.options;
    const { id, created, model, system_fingerprint } = head;
    const usage = this.#totalUsage(
      sum(samples.map(({ tokenIds }) => tokenIds.length)),
      sum(samples.map(({ index, numCachedTokens }) => (index === 0 ? numCachedTokens : 0))),
      sum(samples.map(({ numReasoningTokens }) => numReasoningTokens)),
    );
    const choices = lazyList(samples, choiceOf);
    return { id, object, created, model, choices, service_tier, system_fingerprint, usage };
  }

  /** Choices count the samples of the first prompt first. */
  protected promptOf(choice: number): number {
    return Math.floor(choice / this.#n);
  }

  #totalUsage(completionTokens: number, cachedTokens: number, reasoningTokens: number): Usage {
    const { prompts, showsCachedTokens } = this.options;
    const promptTokens = sum(prompts.map(({ promptTokenIds }) => promptTokenIds.length));
    return usageOf(promptTokens, completionTokens, showsCachedTokens ? cachedTokens : null, reasoningTokens);
  }

  #usageOf(choice: number, { numTokens, numReasoningTokens, numCachedTokens }: ChoiceState): Usage {
    const { prompts, showsCachedTokens } = this.options;
    const promptTokens = prompts[this.promptOf(choice)]!.promptTokenIds.length;
    return usageOf(promptTokens, numTokens, showsCachedTokens ? numCachedTokens : null, numReasoningTokens);
  }

  /** With include_usage every chunk has the field: null until the usage is known. */
  #usageField(usage: Usage | null): string {
    if (usage !== null) return `,"usage":${JSON.stringify(usage)}`;
    return this.options.includeUsage ? ',"usage":null' : '';
  }
}

/** `JSON.stringify`, quicker for null: most fields of most chunks are. */
export function jsonOf(value: object | string | number | null): string {
  return value === null ? 'null' : JSON.stringify(value);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
