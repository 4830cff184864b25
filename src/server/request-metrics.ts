// Histograms and counters about requests, fed by the engine while it works. Names, labels and bounds are the ones that
// existing dashboards query.

import { Counter, Histogram, type Registry } from 'prom-client';
import type { EndedSample, EngineObserver } from '../engine/inference-engine.ts';

const FIRST_TOKEN_SECONDS = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640,
  2560,
];
const NEXT_TOKEN_SECONDS = [
  0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
];
const REQUEST_SECONDS = [
  0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
];
const STEP_TOKENS = [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384];
const NUM_SAMPLES = [1, 2, 5, 10, 20];
const REASONS: readonly EndedSample['reason'][] = ['stop', 'length', 'repetition', 'abort', 'error'];

/** Observed when a sample ends, unless it ended before this could be measured. */
const AT_THE_END: readonly [Exclude<keyof EndedSample, 'reason'>, name: string, help: string][] = [
  ['endToEndSeconds', 'e2e_request_latency_seconds', 'From the arrival of a request to the end of a sample'],
  ['queueSeconds', 'request_queue_time_seconds', 'Time that a sample waited for a seat'],
  ['prefillSeconds', 'request_prefill_time_seconds', 'From the seat of a sample to its first token'],
  ['decodeSeconds', 'request_decode_time_seconds', 'From the first token of a sample to its last'],
  ['inferenceSeconds', 'request_inference_time_seconds', 'From the seat of a sample to its last token'],
  ['promptTokens', 'request_prompt_tokens', 'Tokens of the prompt of a sample'],
  [
    'prefillTokens',
    'request_prefill_kv_computed_tokens',
    'Tokens of the prompt of a sample that were computed',
  ],
  ['generationTokens', 'request_generation_tokens', 'Tokens that a sample was given'],
  ['maxTokens', 'request_params_max_tokens', 'Tokens that a sample could have'],
];

export class RequestMetrics implements EngineObserver {
  readonly #firstToken: Histogram;
  readonly #nextToken: Histogram;
  readonly #timePerToken: Histogram;
  readonly #stepTokens: Histogram;
  readonly #numSamples: Histogram;
  readonly #mostTokens: Histogram;
  readonly #ended: Counter<'finished_reason'>;
  readonly #atTheEnd: readonly (readonly [Histogram, (typeof AT_THE_END)[number][0]])[];

  constructor(registry: Registry, maxModelLen: number) {
    const histogram = (name: string, help: string, buckets: readonly number[]): Histogram =>
      new Histogram({ name: `svc:${name}`, help, buckets: [...buckets], registers: [registry] });
    this.#firstToken = histogram(
      'time_to_first_token_seconds',
      'From the arrival of a request to the first token of a sample',
      FIRST_TOKEN_SECONDS,
    );
    this.#nextToken = histogram(
      'inter_token_latency_seconds',
      'From one token of a sample to the next',
      NEXT_TOKEN_SECONDS,
    );
    this.#timePerToken = histogram(
      'request_time_per_output_token_seconds',
      'Mean time between the tokens of a sample',
      NEXT_TOKEN_SECONDS,
    );
    this.#stepTokens = histogram('iteration_tokens_total', 'Tokens that a step computed', STEP_TOKENS);
    this.#numSamples = histogram('request_params_n', 'Samples of a prompt', NUM_SAMPLES);
    this.#ended = new Counter({
      name: 'svc:request_success_total',
      help: 'Samples that have ended, by reason',
      labelNames: ['finished_reason'],
      registers: [registry],
    });
    for (const reason of REASONS) this.#ended.inc({ finished_reason: reason }, 0);
    const lengths = lengthBuckets(maxModelLen);
    this.#mostTokens = histogram(
      'request_max_num_generation_tokens',
      'Tokens of the longest sample of a prompt',
      lengths,
    );
    this.#atTheEnd = AT_THE_END.map(([measure, name, help]) => {
      const buckets = measure.endsWith('Seconds') ? REQUEST_SECONDS : lengths;
      return [histogram(name, help, buckets), measure];
    });
  }

  step(numTokens: number): void {
    this.#stepTokens.observe(numTokens);
  }

  prompt(numSamples: number): void {
    this.#numSamples.observe(numSamples);
  }

  promptEnded(mostTokens: number): void {
    this.#mostTokens.observe(mostTokens);
  }

  firstToken(seconds: number): void {
    this.#firstToken.observe(seconds);
  }

  nextToken(seconds: number): void {
    this.#nextToken.observe(seconds);
  }

  sampleEnded(sample: EndedSample): void {
    this.#ended.inc({ finished_reason: sample.reason });
    const { decodeSeconds, generationTokens } = sample;
    if (decodeSeconds !== null && generationTokens > 1)
      this.#timePerToken.observe(decodeSeconds / (generationTokens - 1));
    for (const [histogram, measure] of this.#atTheEnd) {
      const value = sample[measure];
      if (value !== null) histogram.observe(value);
    }
  }
}

/** 1, 2, 5, 10, 20, 50, ... up to the context. */
function lengthBuckets(maxModelLen: number): number[] {
  const buckets: number[] = [];
  for (let power = 1; power <= maxModelLen; power *= 10) {
    buckets.push(...[power, 2 * power, 5 * power].filter((bound) => bound <= maxModelLen));
  }
  return buckets;
}
