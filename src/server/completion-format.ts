// The bytes of a completion's answer: one body, or a chunk an event. The completions route has one a request.

import type { OutputDelta } from '../engine/inference-engine.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import { type AnswerFormat, type AnswerHead, chunkHead, usageField } from './answer-format.ts';
import { CompletionLogprobsWriter, joinLogprobs } from './completion-logprobs.ts';
import type { Generation } from './generation.ts';
import type { CompletionChoice, CompletionLogprobs, CompletionResponse } from './protocol/completion.ts';
import { promptLogprobs } from './protocol/logprobs.ts';
import type { Usage } from './protocol/usage.ts';
import type { Sample } from './samples.ts';

export class CompletionFormat implements AnswerFormat {
  readonly #head: AnswerHead;
  readonly #generation: Generation;
  readonly #tokenizer: Tokenizer | null;
  /** JSON of a chunk up to its choices: the same for all chunks of a stream. */
  readonly #chunkHead: string;
  /** By choice: offsets go on from chunk to chunk. */
  readonly #logprobsWriters = new Map<number, CompletionLogprobsWriter>();

  constructor(head: AnswerHead, generation: Generation, tokenizer: Tokenizer | null) {
    this.#head = head;
    this.#generation = generation;
    this.#tokenizer = tokenizer;
    this.#chunkHead = chunkHead('text_completion', head);
  }

  events(choice: number, delta: OutputDelta, isFirst: boolean, usage: Usage | null): string {
    const echo = isFirst ? (this.#generation.echoes[this.#promptOf(choice)]?.text ?? '') : '';
    const text = JSON.stringify(`${echo}${delta.text}`);
    const logprobs = JSON.stringify(this.#logprobs(choice, delta, isFirst));
    const ids = this.#generation.returnTokenIds ? this.#idFields(choice, delta, isFirst) : '';
    return (
      `${this.#chunkHead}[{"index":${choice},"text":${text},"logprobs":${logprobs},` +
      `"finish_reason":${JSON.stringify(delta.finish_reason)},"stop_reason":${JSON.stringify(delta.stop_reason)}` +
      `${ids}}]${usageField(usage, this.#generation)}}\n\n`
    );
  }

  usageEvent(usage: Usage): string {
    return `${this.#chunkHead}[],"usage":${JSON.stringify(usage)}}\n\n`;
  }

  body(samples: readonly Sample[], usage: Usage): CompletionResponse {
    return {
      id: this.#head.id,
      object: 'text_completion',
      created: this.#head.created,
      model: this.#head.model,
      choices: samples.map((sample, index) => this.#choice(sample, index)),
      service_tier: null,
      system_fingerprint: this.#head.system_fingerprint,
      usage,
      kv_transfer_params: null,
    };
  }

  #choice(sample: Sample, index: number): CompletionChoice {
    const { returnTokenIds, returnPromptLogprobs, prompts } = this.#generation;
    const ofPrompt = returnPromptLogprobs ? sample.promptLogprobs : null;
    return {
      index,
      text: sample.text,
      logprobs: this.#logprobs(index, sample, true),
      finish_reason: sample.finish_reason,
      stop_reason: sample.stop_reason,
      token_ids: returnTokenIds ? sample.tokenIds : null,
      prompt_logprobs: ofPrompt && promptLogprobs(ofPrompt),
      prompt_token_ids: returnTokenIds ? (prompts[this.#promptOf(index)]?.promptTokenIds ?? null) : null,
    };
  }

  /** An echoed prompt comes before the first token. */
  #logprobs(
    choice: number,
    added: Pick<OutputDelta, 'logprobs' | 'promptLogprobs'>,
    isFirst: boolean,
  ): CompletionLogprobs | null {
    if (added.logprobs === null) return null;
    const writer = this.#logprobsWriter(choice);
    const logprobs = writer.next(added.logprobs);
    const isEchoed = isFirst && this.#generation.echoes[this.#promptOf(choice)] !== null;
    if (!isEchoed || added.promptLogprobs === null) return logprobs;
    return joinLogprobs(writer.prompt(added.promptLogprobs), logprobs);
  }

  #logprobsWriter(choice: number): CompletionLogprobsWriter {
    const known = this.#logprobsWriters.get(choice);
    if (known !== undefined) return known;
    const { prompts, echoes, areTokensIds } = this.#generation;
    const at = this.#promptOf(choice);
    const writer = new CompletionLogprobsWriter({
      tokenizer: this.#tokenizer,
      prompt: prompts[at]!,
      echo: echoes[at] ?? null,
      areTokensIds,
    });
    this.#logprobsWriters.set(choice, writer);
    return writer;
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
