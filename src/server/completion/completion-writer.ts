// Writes the answer to a completion: one body, or a chunk an event.

import type { CompletedSample } from '../../engine/completed-sample.ts';
import type { OutputDelta } from '../../engine/inference-engine.ts';
import { toJson } from '../../http/json-pieces.ts';
import type { Tokenizer } from '../../tokenizer/tokenizer.ts';
import { ChunkWriter, jsonOf } from '../chunk-writer.ts';
import { promptLogprobs } from '../logprobs.ts';
import type { Usage } from '../protocol/usage.ts';
import type { ResponseOptions } from '../response-options.ts';
import type { Frames } from '../response-writer.ts';
import { CompletionLogprobsWriter } from './completion-logprobs.ts';

export class CompletionWriter extends ChunkWriter {
  readonly #tokenizer: Tokenizer | null;
  /** By choice: offsets go on from chunk to chunk. */
  readonly #logprobsWriters = new Map<number, CompletionLogprobsWriter>();

  constructor(options: ResponseOptions, tokenizer: Tokenizer | null) {
    super('text_completion', options);
    this.#tokenizer = tokenizer;
  }

  body(samples: readonly CompletedSample[]): object {
    return {
      ...this.answer('text_completion', samples, (sample, choice) => this.#choice(sample, choice)),
      kv_transfer_params: null,
    };
  }

  protected async chunks(
    choice: number,
    delta: OutputDelta,
    isFirst: boolean,
    usage: Usage | null,
  ): Promise<Frames> {
    const echo = isFirst ? this.#echoOf(choice) : '';
    const lists = this.#logprobs(choice, delta);
    const logprobs = lists === null ? 'null' : await toJson(lists);
    const ids = this.options.returnTokenIds ? await this.#idFields(choice, delta, isFirst) : '';
    const fields =
      `{"index":${choice},"text":${JSON.stringify(`${echo}${delta.text}`)},"logprobs":${logprobs},` +
      `"finish_reason":${jsonOf(delta.finish_reason)},"stop_reason":${jsonOf(delta.stop_reason)}${ids}}`;
    return [this.chunk(fields, usage)];
  }

  #choice(sample: CompletedSample, choice: number): object {
    const { returnTokenIds, returnPromptLogprobs, prompts } = this.options;
    const ofPrompt = returnPromptLogprobs ? sample.promptLogprobs : null;
    return {
      index: choice,
      text: this.#echoOf(choice) + sample.text,
      logprobs: this.#logprobs(choice, sample),
      finish_reason: sample.finish_reason,
      stop_reason: sample.stop_reason,
      token_ids: returnTokenIds ? sample.tokenIds : null,
      prompt_logprobs: ofPrompt && promptLogprobs(ofPrompt),
      prompt_token_ids: returnTokenIds ? (prompts[this.promptOf(choice)]?.promptTokenIds ?? null) : null,
    };
  }

  #echoOf(choice: number): string {
    return this.options.echoes[this.promptOf(choice)]?.text ?? '';
  }

  /** Those of an echoed prompt come before the first token, with which the engine tells them. */
  #logprobs(choice: number, added: Pick<OutputDelta, 'logprobs' | 'promptLogprobs'>) {
    if (added.logprobs === null) return null;
    const isEchoed = this.options.echoes[this.promptOf(choice)] !== null;
    const ofPrompt = isEchoed ? added.promptLogprobs : null;
    return this.#logprobsWriter(choice).lists(ofPrompt, added.logprobs);
  }

  #logprobsWriter(choice: number): CompletionLogprobsWriter {
    const known = this.#logprobsWriters.get(choice);
    if (known !== undefined) return known;
    const { prompts, echoes, areTokensIds } = this.options;
    const prompt = this.promptOf(choice);
    const writer = new CompletionLogprobsWriter({
      tokenizer: this.#tokenizer,
      prompt: prompts[prompt]!,
      echo: echoes[prompt] ?? null,
      areTokensIds,
    });
    this.#logprobsWriters.set(choice, writer);
    return writer;
  }

  async #idFields(choice: number, delta: OutputDelta, isFirst: boolean): Promise<string> {
    const prompt = this.options.prompts[this.promptOf(choice)];
    const promptIds = isFirst ? `,"prompt_token_ids":${await toJson(prompt?.promptTokenIds)}` : '';
    return `${promptIds},"token_ids":${JSON.stringify(delta.tokenIds)}`;
  }
}
