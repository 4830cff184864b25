// Writes the answer to a chat completion: one body, or a chunk an event.

import type { CompletedSample } from '../../engine/completed-sample.ts';
import type { OutputDelta } from '../../engine/inference-engine.ts';
import { toJson } from '../../http/json-pieces.ts';
import { ChunkWriter, jsonOf } from '../chunk-writer.ts';
import { promptLogprobs } from '../logprobs.ts';
import type { Usage } from '../protocol/usage.ts';
import type { ResponseOptions } from '../response-options.ts';
import type { Frames } from '../response-writer.ts';
import { chatLogprobs } from './chat-logprobs.ts';

export class ChatWriter extends ChunkWriter {
  readonly #role: string;
  readonly #metadata: Readonly<Record<string, string>> | null;

  /**
   * @param role speaks the answer.
   * @param metadata notes of the client, which an answer in one piece repeats; null without any.
   */
  constructor(
    options: ResponseOptions,
    role: string,
    metadata: Readonly<Record<string, string>> | null = null,
  ) {
    super('chat.completion.chunk', options);
    this.#role = role;
    this.#metadata = metadata;
  }

  body(samples: readonly CompletedSample[]): object {
    const { returnTokenIds, returnPromptLogprobs, prompts } = this.options;
    const ofPrompt = returnPromptLogprobs ? (samples[0]?.promptLogprobs ?? null) : null;
    return {
      ...this.answer('chat.completion', samples, (sample, choice) => this.#choice(sample, choice)),
      ...(this.#metadata !== null && { metadata: this.#metadata }),
      prompt_logprobs: ofPrompt && promptLogprobs(ofPrompt),
      prompt_token_ids: returnTokenIds ? (prompts[0]?.promptTokenIds ?? null) : null,
      kv_transfer_params: null,
    };
  }

  protected async chunks(
    choice: number,
    delta: OutputDelta,
    isFirst: boolean,
    usage: Usage | null,
  ): Promise<Frames> {
    const ids = this.options.returnTokenIds ? `,"token_ids":${JSON.stringify(delta.tokenIds)}` : '';
    const stop = delta.finish_reason === null ? '' : `,"stop_reason":${jsonOf(delta.stop_reason)}`;
    const tail = `"finish_reason":${jsonOf(delta.finish_reason)}${stop}${ids}`;
    const lists = this.#logprobs(delta);
    const logprobs = lists === null ? 'null' : await toJson(lists);
    const content = `{"content":${JSON.stringify(delta.text)}},"logprobs":${logprobs}`;
    const chunk = this.#chunk(choice, content, tail, usage);
    return isFirst ? [...(await this.#opening(choice, usage)), chunk] : [chunk];
  }

  /** The role, then the echo: both before the first token. */
  async #opening(choice: number, usage: Usage | null): Promise<Frames> {
    const { prompts, returnTokenIds, echoes } = this.options;
    const extra = returnTokenIds ? `,"prompt_token_ids":${await toJson(prompts[0]?.promptTokenIds)}` : '';
    const unfinished = '"finish_reason":null';
    const delta = `{"role":${JSON.stringify(this.#role)},"content":""},"logprobs":null`;
    const role = this.#chunk(choice, delta, unfinished, usage, extra);
    const echo = echoes[0]?.text ?? '';
    if (echo === '') return [role];
    const content = `{"content":${JSON.stringify(echo)}},"logprobs":null`;
    return [role, this.#chunk(choice, content, unfinished, usage)];
  }

  #chunk(choice: number, delta: string, tail: string, usage: Usage | null, extra = ''): string {
    return this.chunk(`{"index":${choice},"delta":${delta},${tail}}`, usage, extra);
  }

  #logprobs({ logprobs }: Pick<OutputDelta, 'logprobs'>) {
    return logprobs === null ? null : chatLogprobs(logprobs, this.options.areTokensIds);
  }

  #choice(sample: CompletedSample, choice: number): object {
    return {
      index: choice,
      message: {
        role: this.#role,
        content: (this.options.echoes[0]?.text ?? '') + sample.text,
        refusal: null,
        annotations: [],
        audio: null,
        tool_calls: [],
        reasoning: null,
      },
      logprobs: this.#logprobs(sample),
      finish_reason: sample.finish_reason,
      stop_reason: sample.stop_reason,
      token_ids: this.options.returnTokenIds ? sample.tokenIds : null,
    };
  }
}
