// The bytes of a chat completion's answer: one body, or a chunk an event. The chat route has one a request.

import type { OutputDelta } from '../../engine/inference-engine.ts';
import { type AnswerFormat, type AnswerHead, chunkHead, usageField } from '../answer-format.ts';
import type { Generation } from '../generation.ts';
import type { ChatChoice, ChatCompletionResponse, ChatLogprobs } from '../protocol/chat-completion.ts';
import { promptLogprobs } from '../protocol/logprobs.ts';
import type { Usage } from '../protocol/usage.ts';
import type { Sample } from '../samples.ts';
import { chatLogprobs } from './chat-logprobs.ts';

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
    const logprobs = JSON.stringify(this.#logprobs(delta));
    const content = `{"content":${JSON.stringify(delta.text)}},"logprobs":${logprobs}`;
    const chunk = this.#chunk(choice, content, tail, usage);
    return isFirst ? this.#opening(choice, usage) + chunk : chunk;
  }

  usageEvent(usage: Usage): string {
    return `${this.#chunkHead}[],"usage":${JSON.stringify(usage)}}\n\n`;
  }

  body(samples: readonly Sample[], usage: Usage): ChatCompletionResponse {
    const { returnTokenIds, returnPromptLogprobs, prompts } = this.#generation;
    const ofPrompt = returnPromptLogprobs ? (samples[0]?.promptLogprobs ?? null) : null;
    return {
      id: this.#head.id,
      object: 'chat.completion',
      created: this.#head.created,
      model: this.#head.model,
      choices: samples.map((sample, index) => this.#choice(sample, index)),
      service_tier: null,
      system_fingerprint: this.#head.system_fingerprint,
      usage,
      prompt_logprobs: ofPrompt && promptLogprobs(ofPrompt),
      prompt_token_ids: returnTokenIds ? (prompts[0]?.promptTokenIds ?? null) : null,
      kv_transfer_params: null,
    };
  }

  /** Who speaks, then what is echoed: both before the first token. */
  #opening(choice: number, usage: Usage | null): string {
    const { prompts, returnTokenIds, echoes } = this.#generation;
    const extra = returnTokenIds ? `,"prompt_token_ids":${JSON.stringify(prompts[0]?.promptTokenIds)}` : '';
    const unfinished = '"finish_reason":null';
    const delta = `{"role":${JSON.stringify(this.#role)},"content":""},"logprobs":null`;
    const role = this.#chunk(choice, delta, unfinished, usage, extra);
    const echo = echoes[0]?.text ?? '';
    if (echo === '') return role;
    return (
      role + this.#chunk(choice, `{"content":${JSON.stringify(echo)}},"logprobs":null`, unfinished, usage)
    );
  }

  #chunk(choice: number, delta: string, tail: string, usage: Usage | null, extra = ''): string {
    return (
      `${this.#chunkHead}[{"index":${choice},"delta":${delta},${tail}}]` +
      `${extra}${usageField(usage, this.#generation)}}\n\n`
    );
  }

  #logprobs({ logprobs }: Pick<OutputDelta, 'logprobs'>): ChatLogprobs | null {
    return logprobs === null ? null : chatLogprobs(logprobs, this.#generation.areTokensIds);
  }

  #choice(sample: Sample, index: number): ChatChoice {
    return {
      index,
      message: {
        role: this.#role,
        content: sample.text,
        refusal: null,
        annotations: [],
        audio: null,
        tool_calls: [],
        reasoning: null,
      },
      logprobs: this.#logprobs(sample),
      finish_reason: sample.finish_reason,
      stop_reason: sample.stop_reason,
      token_ids: this.#generation.returnTokenIds ? sample.tokenIds : null,
    };
  }
}
