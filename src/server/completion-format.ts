// The bytes of a completion's answer: one body, or a chunk an event. The completions route has one a request.

import type { OutputDelta } from '../engine/inference-engine.ts';
import { type AnswerFormat, type AnswerHead, chunkHead, usageField, usageJson } from './answer-format.ts';
import type { Generation, Sample } from './generation.ts';
import type { CompletionChoice, CompletionResponse } from './protocol/completion.ts';
import type { Usage } from './protocol/usage.ts';

export class CompletionFormat implements AnswerFormat {
  readonly #head: AnswerHead;
  readonly #generation: Generation;
  /** JSON of a chunk up to its choices: the same for all chunks of a stream. */
  readonly #chunkHead: string;

  constructor(head: AnswerHead, generation: Generation) {
    this.#head = head;
    this.#generation = generation;
    this.#chunkHead = chunkHead('text_completion', head);
  }

  events(choice: number, delta: OutputDelta, isFirst: boolean, usage: Usage | null): string {
    const echo = isFirst ? this.#generation.echoes[this.#promptOf(choice)] : '';
    const text = JSON.stringify(`${echo}${delta.text}`);
    const ids = this.#generation.returnTokenIds ? this.#idFields(choice, delta, isFirst) : '';
    return (
      `${this.#chunkHead}[{"index":${choice},"text":${text},"logprobs":null,` +
      `"finish_reason":${JSON.stringify(delta.finish_reason)},"stop_reason":${JSON.stringify(delta.stop_reason)}` +
      `${ids}}]${usageField(usage, this.#generation)}}\n\n`
    );
  }

  usageEvent(usage: Usage): string {
    return `${this.#chunkHead}[],"usage":${usageJson(usage)}}\n\n`;
  }

  body(samples: readonly Sample[], usage: Usage): CompletionResponse {
    return {
      id: this.#head.id,
      object: 'text_completion',
      created: this.#head.created,
      model: this.#head.model,
      choices: samples.map((sample, index) => this.#choice(sample, index)),
      service_tier: null,
      system_fingerprint: null,
      usage,
      kv_transfer_params: null,
    };
  }

  #choice(sample: Sample, index: number): CompletionChoice {
    const { returnTokenIds, prompts } = this.#generation;
    return {
      index,
      text: sample.text,
      logprobs: null,
      finish_reason: sample.finish_reason,
      stop_reason: sample.stop_reason,
      token_ids: returnTokenIds ? sample.tokenIds : null,
      prompt_logprobs: null,
      prompt_token_ids: returnTokenIds ? (prompts[this.#promptOf(index)]?.promptTokenIds ?? null) : null,
    };
  }

  #idFields(choice: number, delta: OutputDelta, isFirst: boolean): string {
    const prompt = this.#generation.prompts[this.#promptOf(choice)];
    const promptIds = isFirst ? `,"prompt_token_ids":${JSON.stringify(prompt?.promptTokenIds)}` : '';
    return `${promptIds},"token_ids":${JSON.stringify(delta.tokenIds)}`;
  }

  /** Choices count the samples of the first prompt first. */
  #promptOf(choice: number): number {
    return Math.floor(choice / (this.#generation.prompts[0]?.params.n ?? 1));
  }
}
