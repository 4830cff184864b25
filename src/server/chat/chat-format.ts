// The bytes of a chat completion's answer: one body, or a chunk an event. The chat route has one a request.

import type { OutputDelta } from '../../engine/inference-engine.ts';
import { type AnswerFormat, type AnswerHead, chunkHead, usageField, usageJson } from '../answer-format.ts';
import type { Generation, Sample } from '../generation.ts';
import type { ChatChoice, ChatCompletionResponse } from '../protocol/chat-completion.ts';
import type { Usage } from '../protocol/usage.ts';

export class ChatFormat implements AnswerFormat {
  readonly #head: AnswerHead;
  readonly #generation: Generation;
  readonly #role: string;
  /** JSON of a chunk up to its choices: the same for all chunks of a stream. */
  readonly #chunkHead: string;

  /** `role` speaks the answer. */
  constructor(head: AnswerHead, generation: Generation, role: string) {
    this.#head = head;
    this.#generation = generation;
    this.#role = role;
    this.#chunkHead = chunkHead('chat.completion.chunk', head);
  }

  events(choice: number, delta: OutputDelta, isFirst: boolean, usage: Usage | null): string {
    const { returnTokenIds } = this.#generation;
    const ids = returnTokenIds ? `,"token_ids":${JSON.stringify(delta.tokenIds)}` : '';
    const stop = delta.finish_reason === null ? '' : `,"stop_reason":${JSON.stringify(delta.stop_reason)}`;
    const tail = `"finish_reason":${JSON.stringify(delta.finish_reason)}${stop}${ids}`;
    const chunk = this.#chunk(choice, `{"content":${JSON.stringify(delta.text)}}`, tail, usage);
    return isFirst ? this.#opening(choice, usage) + chunk : chunk;
  }

  usageEvent(usage: Usage): string {
    return `${this.#chunkHead}[],"usage":${usageJson(usage)}}\n\n`;
  }

  body(samples: readonly Sample[], usage: Usage): ChatCompletionResponse {
    const { returnTokenIds, prompts } = this.#generation;
    return {
      id: this.#head.id,
      object: 'chat.completion',
      created: this.#head.created,
      model: this.#head.model,
      choices: samples.map((sample, index) => this.#choice(sample, index)),
      service_tier: null,
      system_fingerprint: null,
      usage,
      prompt_logprobs: null,
      prompt_token_ids: returnTokenIds ? (prompts[0]?.promptTokenIds ?? null) : null,
      kv_transfer_params: null,
    };
  }

  /** Who speaks, then what is echoed: both before the first token. */
  #opening(choice: number, usage: Usage | null): string {
    const { prompts, returnTokenIds, echoes } = this.#generation;
    const extra = returnTokenIds ? `,"prompt_token_ids":${JSON.stringify(prompts[0]?.promptTokenIds)}` : '';
    const unfinished = '"finish_reason":null';
    const delta = `{"role":${JSON.stringify(this.#role)},"content":""}`;
    const role = this.#chunk(choice, delta, unfinished, usage, extra);
    const echo = echoes[0] ?? '';
    if (echo === '') return role;
    return role + this.#chunk(choice, `{"content":${JSON.stringify(echo)}}`, unfinished, usage);
  }

  #chunk(choice: number, delta: string, tail: string, usage: Usage | null, extra = ''): string {
    return (
      `${this.#chunkHead}[{"index":${choice},"delta":${delta},"logprobs":null,${tail}}]` +
      `${extra}${usageField(usage, this.#generation)}}\n\n`
    );
  }

  #choice(sample: Sample, index: number): ChatChoice {
    return {
      index,
      message: {
        role: this.#role,
        content: sample.text,
        refusal: null,
        annotations: null,
        audio: null,
        function_call: null,
        tool_calls: [],
        reasoning: null,
      },
      logprobs: null,
      finish_reason: sample.finish_reason,
      stop_reason: sample.stop_reason,
      token_ids: this.#generation.returnTokenIds ? sample.tokenIds : null,
    };
  }
}
