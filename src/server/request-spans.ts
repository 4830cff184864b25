// The spans of one request: what it asked, and what its samples did when they had ended. Names of attributes are those of
// the conventions for generative models, and of dashboards made for other servers.

import type { EndedSample } from '../engine/inference-engine.ts';
import type { RequestSpan } from '../observability/tracing.ts';

/** Samples of one request that have spans of their own: of more, nobody reads them. */
const MAX_SAMPLES = 16;

export class RequestSpans {
  readonly #span: RequestSpan;
  #numSamples = 0;
  #numOutputTokens = 0;

  constructor(span: RequestSpan, requestId: string) {
    this.#span = span;
    span.set({ 'gen_ai.request.id': requestId });
  }

  sampleEnded(sample: EndedSample): void {
    this.#numSamples += 1;
    this.#numOutputTokens += sample.generationTokens;
    if (this.#numSamples <= MAX_SAMPLES) this.#phases(sample);
    if (this.#numSamples > 1) return;
    this.#span.set({
      'gen_ai.usage.prompt_tokens': sample.promptTokens,
      'gen_ai.request.max_tokens': sample.maxTokens,
      'gen_ai.latency.time_in_queue': sample.queueSeconds ?? 0,
      'gen_ai.latency.time_to_first_token': (sample.queueSeconds ?? 0) + (sample.prefillSeconds ?? 0),
    });
  }

  end(error: Error | null): void {
    this.#span.set({
      'gen_ai.request.n': this.#numSamples,
      'gen_ai.usage.completion_tokens': this.#numOutputTokens,
    });
    this.#span.end(error);
  }

  /** One behind the other: the engine measures how long each was, by a clock of its own. */
  #phases({ arrivedAt, ...sample }: EndedSample): void {
    if (sample.queueSeconds === null) return;
    const { queueSeconds, transferSeconds, prefillSeconds, decodeSeconds } = sample;
    let from = arrivedAt;
    const phase = (name: string, seconds: number | null): void => {
      if (seconds === null || seconds === 0) return;
      const to = from + 1000 * seconds;
      this.#span.phase(name, { from, to }, { 'svc.sample': this.#numSamples - 1 });
      from = to;
    };
    phase('queue', queueSeconds - (transferSeconds ?? 0));
    phase('transfer', transferSeconds);
    phase('prefill', prefillSeconds);
    phase('decode', decodeSeconds);
  }
}
