// Measures how long a sample of a request waits, is computed and is answered. The engine thread and this one have
// different clocks; an interval never mixes the two.

import type { FinishReason } from '../sampling/finish-reason.ts';
import type { AdmissionRecord } from '../scheduler/request.ts';
import type { PreparedRequest } from './input-processor.ts';

/** Is told what becomes of requests; unknown values are null. */
export interface EngineObserver {
  /** A step has computed so many tokens. */
  step(numTokens: number): void;
  prompt(numSamples: number): void;
  firstToken(seconds: number): void;
  /** Since the output before it; tokens that come together are one. */
  nextToken(seconds: number): void;
  sampleEnded(sample: EndedSample): void;
  /** All samples of a prompt have ended; the longest has so many tokens. */
  promptEnded(mostTokens: number): void;
}

/** Seconds are null where the sample ended before that phase. */
export interface EndedSample {
  /** Of its request: milliseconds by performance.now(). */
  readonly arrivedAt: number;
  readonly reason: FinishReason | 'abort' | 'error';
  readonly promptTokens: number;
  /** Of the prompt, computed here; null where the sample ended before its first token. */
  readonly prefillTokens: number | null;
  readonly generationTokens: number;
  readonly maxTokens: number;
  readonly endToEndSeconds: number;
  readonly queueSeconds: number | null;
  /** The part of `queueSeconds` in which KV came from another instance; null where none was to come. */
  readonly transferSeconds: number | null;
  readonly prefillSeconds: number | null;
  readonly decodeSeconds: number | null;
  readonly inferenceSeconds: number | null;
}

const NEVER_ADMITTED = {
  queueSeconds: null,
  transferSeconds: null,
  prefillSeconds: null,
  decodeSeconds: null,
  inferenceSeconds: null,
};

/** Hears of each sample of a prompt, and calls `onAll` once with the tokens of the longest. */
export function promptEnds(
  numSamples: number,
  onAll: (mostTokens: number) => void,
): (sample: EndedSample) => void {
  let numLeft = numSamples;
  let mostTokens = 0;
  return ({ generationTokens }) => {
    numLeft -= 1;
    mostTokens = Math.max(mostTokens, generationTokens);
    if (numLeft === 0) onAll(mostTokens);
  };
}

type SampleFacts = Pick<PreparedRequest, 'arrivedAt' | 'promptTokenIds' | 'stop'>;

export class SampleTimes {
  /** Null where nobody measures. */
  readonly #observer: EngineObserver | null;
  readonly #facts: SampleFacts;
  readonly #onEnded: (sample: EndedSample) => void;
  readonly #heldFrom = performance.now();
  #heldMs = 0;
  #admission: AdmissionRecord | null = null;
  #firstTokenAt = 0;
  #lastTokenAt = 0;
  #numTokens = 0;
  #isEnded = false;

  /** @param onEnded is told of this sample alone. */
  constructor(
    observer: EngineObserver | null,
    facts: SampleFacts,
    onEnded: (sample: EndedSample) => void = () => {},
  ) {
    this.#observer = observer;
    this.#facts = facts;
    this.#onEnded = onEnded;
  }

  /** Sent to the engine thread: until now it waited for a place. */
  sent(): void {
    this.#heldMs = performance.now() - this.#heldFrom;
  }

  /**
   * @param at when the engine thread had the tokens, by its clock.
   * @param admission not null with the first one.
   */
  output(at: number, numTokens: number, admission: AdmissionRecord | null): void {
    this.#numTokens += numTokens;
    if (admission !== null) {
      this.#admission = admission;
      this.#firstTokenAt = at;
      this.#observer?.firstToken((performance.now() - this.#facts.arrivedAt) / 1000);
    } else if (at > this.#lastTokenAt) {
      // Outputs of an answer that is resumed come together: there is nothing between them.
      this.#observer?.nextToken((at - this.#lastTokenAt) / 1000);
    }
    this.#lastTokenAt = at;
  }

  /** The first end counts. */
  end(reason: EndedSample['reason']): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    const { arrivedAt, promptTokenIds, stop } = this.#facts;
    const sample = {
      arrivedAt,
      reason,
      promptTokens: promptTokenIds.length,
      prefillTokens: this.#admission?.numPrefillTokens ?? null,
      maxTokens: stop.maxTokens,
      generationTokens: this.#numTokens,
      endToEndSeconds: (performance.now() - arrivedAt) / 1000,
      ...this.#engineSeconds(),
    };
    this.#observer?.sampleEnded(sample);
    this.#onEnded(sample);
  }

  #engineSeconds(): Pick<
    EndedSample,
    'queueSeconds' | 'transferSeconds' | 'prefillSeconds' | 'decodeSeconds' | 'inferenceSeconds'
  > {
    if (this.#admission === null) return NEVER_ADMITTED;
    const { queuedAt, loadingAt, scheduledAt } = this.#admission;
    return {
      transferSeconds: loadingAt === null ? null : (scheduledAt - loadingAt) / 1000,
      queueSeconds: (this.#heldMs + scheduledAt - queuedAt) / 1000,
      prefillSeconds: (this.#firstTokenAt - scheduledAt) / 1000,
      decodeSeconds: (this.#lastTokenAt - this.#firstTokenAt) / 1000,
      inferenceSeconds: (this.#lastTokenAt - scheduledAt) / 1000,
    };
  }
}
