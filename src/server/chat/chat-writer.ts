// Writes the answer to a chat completion: one body, or a chunk an event.

import type { CompletedSample } from '../../engine/completed-sample.ts';
import type { OutputDelta } from '../../engine/inference-engine.ts';
import { toJson } from '../../http/json-pieces.ts';
import { AnswerDeltas, type AnswerFieldOptions, answerFields } from '../../parsers/answer-fields.ts';
import type { FinishReason } from '../../sampling/finish-reason.ts';
import { ChunkWriter, jsonOf } from '../chunk-writer.ts';
import { promptLogprobs } from '../logprobs.ts';
import type { Usage } from '../protocol/usage.ts';
import type { ResponseOptions } from '../response-options.ts';
import type { Frames } from '../response-writer.ts';
import { chatLogprobs } from './chat-logprobs.ts';
import { withCustomCalls } from './custom-calls.ts';
import { type CallFields, withFunctionCall } from './functions.ts';

interface ChatAnswer {
  /** Speaks it. */
  readonly role: string;
  /** Notes of the client, which an answer in one piece repeats; null without any. */
  readonly metadata: Readonly<Record<string, string>> | null;
  /** Exact length of the ids of calls; null: of any length. */
  readonly idLength: number | null;
  readonly includesReasoning: boolean;
  /** An answer that calls a function ended for that. */
  readonly endsForCalls: boolean;
  /** Where the message has its calls, which is why it ended, too; `function_call` has one at most. */
  readonly callField: 'tool_calls' | 'function_call';
}

export class ChatWriter extends ChunkWriter {
  readonly #answer: ChatAnswer;
  readonly #fields: AnswerFieldOptions;
  /** By choice. */
  readonly #deltas: AnswerDeltas[] = [];

  constructor(options: ResponseOptions, answer: ChatAnswer) {
    super('chat.completion.chunk', options);
    this.#answer = answer;
    this.#fields = { ...answer, id: options.head.id };
  }

  body(samples: readonly CompletedSample[]): object {
    const { returnTokenIds, prompts } = this.options;
    const { metadata } = this.#answer;
    const ofPrompt = samples[0]?.promptLogprobs ?? null;
    return {
      ...this.answer('chat.completion', samples, (sample, choice) => this.#choice(sample, choice)),
      ...(metadata !== null && { metadata }),
      prompt_logprobs: ofPrompt && promptLogprobs(ofPrompt),
      prompt_token_ids: returnTokenIds ? (prompts[0]?.promptTokenIds ?? null) : null,
      kv_transfer_params: null,
    };
  }

  protected override shows({ text, parts }: OutputDelta): boolean {
    if (parts === null) return text !== '';
    return parts.some(({ kind }) => kind !== 'reasoning' || this.#answer.includesReasoning);
  }

  protected async chunks(
    choice: number,
    delta: OutputDelta,
    isFirst: boolean,
    usage: Usage | null,
  ): Promise<Frames> {
    const ids = this.options.returnTokenIds ? `,"token_ids":${JSON.stringify(delta.tokenIds)}` : '';
    const fields = this.#deltaFields(choice, delta);
    const stop = delta.finish_reason === null ? '' : `,"stop_reason":${jsonOf(delta.stop_reason)}`;
    const finish = this.#finishReason(delta, this.#deltas[choice]?.hasCalls ?? false);
    const tail = `"finish_reason":${jsonOf(finish)}${stop}${ids}`;
    const lists = this.#logprobs(delta);
    const logprobs = lists === null ? 'null' : await toJson(lists);
    const chunk = this.#chunk(choice, `${fields},"logprobs":${logprobs}`, tail, usage);
    return isFirst ? [...(await this.#opening(choice, usage)), chunk] : [chunk];
  }

  /** JSON of what is new. */
  #deltaFields(choice: number, { text, parts }: OutputDelta): string {
    if (parts === null) return `{"content":${JSON.stringify(text)}}`;
    this.#deltas[choice] ??= new AnswerDeltas(this.#fields, choice);
    return JSON.stringify(this.#inAskedForm(this.#deltas[choice].next(parts)));
  }

  #finishReason(
    { finish_reason: reason, isCallCut }: OutputDelta,
    hasCalls: boolean,
  ): FinishReason | ChatAnswer['callField'] | null {
    const isForCalls = reason === 'stop' && hasCalls && !isCallCut && this.#answer.endsForCalls;
    return isForCalls ? this.#answer.callField : reason;
  }

  #inAskedForm<F extends CallFields>(fields: F) {
    return this.#answer.callField === 'function_call' ? withFunctionCall(fields) : withCustomCalls(fields);
  }

  /** The role, then the echo: both before the first token. */
  async #opening(choice: number, usage: Usage | null): Promise<Frames> {
    const { prompts, returnTokenIds, echoes } = this.options;
    const extra = returnTokenIds ? `,"prompt_token_ids":${await toJson(prompts[0]?.promptTokenIds)}` : '';
    const unfinished = '"finish_reason":null';
    const delta = `{"role":${JSON.stringify(this.#answer.role)},"content":""},"logprobs":null`;
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
    const { parts } = sample;
    const { content, ...others } =
      parts === null
        ? { content: sample.text, tool_calls: [], reasoning: null }
        : answerFields(parts, this.#fields, choice);
    const echo = this.options.echoes[0]?.text ?? '';
    return {
      index: choice,
      message: {
        role: this.#answer.role,
        content: content === null && echo === '' ? null : echo + (content ?? ''),
        refusal: null,
        annotations: [],
        audio: null,
        ...this.#inAskedForm(others),
      },
      logprobs: this.#logprobs(sample),
      finish_reason: this.#finishReason(sample, others.tool_calls.length > 0),
      stop_reason: sample.stop_reason,
      token_ids: this.options.returnTokenIds ? sample.tokenIds : null,
    };
  }
}
