// Writes the answer to a request for a response: one body, or typed events that count themselves. Each event follows from the
// request alone, so that another instance can write the same stream.

import type { CompletedSample } from '../../engine/completed-sample.ts';
import type { OutputDelta, PositionLogprobs } from '../../engine/inference-engine.ts';
import type { SvcError } from '../../errors.ts';
import { responsesErrorEvent } from '../../http/error-shapes.ts';
import { errorBody } from '../../http/errors.ts';
import { lazyList, toJson } from '../../http/json-pieces.ts';
import type { FinishReason } from '../../sampling/finish-reason.ts';
import { chatLogprobs } from '../chat/chat-logprobs.ts';
import type { ResponseOptions } from '../response-options.ts';
import type { Frames, ResponseWriter } from '../response-writer.ts';
import { itemId, type MessageItem, outputText } from './items.ts';
import { type ResponseFields, type ResponseObject, responseUsage } from './response-object.ts';

/** The only item of an answer that is text. */
const MESSAGE = 0;

interface ResponsesWriterOptions {
  readonly options: ResponseOptions;
  readonly fields: ResponseFields;
  /** Makes the ids of items. */
  readonly answerId: string;
  /** Called once, with an answer that is complete and holds lists only. */
  readonly onComplete: (response: ResponseObject, numBytes: number) => void;
}

export class ResponsesWriter implements ResponseWriter {
  readonly #options: ResponseOptions;
  readonly #fields: ResponseFields;
  readonly #onComplete: (response: ResponseObject, numBytes: number) => void;
  readonly #messageId: string;
  /** Fields that tell where a piece of text belongs. */
  readonly #place: string;
  #numEvents = 0;
  #hasBegun = false;
  #text = '';
  #numTokens = 0;
  #numCachedTokens = 0;
  readonly #positions: PositionLogprobs[] = [];
  /** The last event, made with the last delta. */
  #last = '';

  constructor({ options, fields, answerId, onComplete }: ResponsesWriterOptions) {
    this.#options = options;
    this.#fields = fields;
    this.#onComplete = onComplete;
    this.#messageId = itemId('message', answerId, MESSAGE);
    this.#place = `"item_id":${JSON.stringify(this.#messageId)},"output_index":${MESSAGE},"content_index":0`;
  }

  body(samples: readonly CompletedSample[]): object {
    const { text, finish_reason, tokenIds, numCachedTokens, logprobs } = samples[0]!;
    this.#text = text;
    this.#numTokens = tokenIds.length;
    this.#numCachedTokens = numCachedTokens;
    this.#positions.push(...(logprobs ?? []));
    return this.#complete(finish_reason);
  }

  open(): Frames {
    const response = JSON.stringify(this.#response('in_progress'));
    return [
      this.#event('response.created', `"response":${response}`),
      this.#event('response.in_progress', `"response":${response}`),
    ];
  }

  async delta(_choice: number, delta: OutputDelta): Promise<Frames> {
    const { text, tokenIds, logprobs, finish_reason, numCachedTokens } = delta;
    this.#numTokens += tokenIds.length;
    this.#numCachedTokens = numCachedTokens;
    const frames: string[] = [];
    if (text !== '' || logprobs !== null) {
      if (!this.#hasBegun) frames.push(...this.#begin());
      this.#text += text;
      for (const position of logprobs ?? []) this.#positions.push(position);
      const listed = logprobs === null ? '[]' : await toJson(this.#logprobs(logprobs));
      const said = `"delta":${JSON.stringify(text)},"logprobs":${listed}`;
      frames.push(this.#event('response.output_text.delta', `${this.#place},${said}`));
    }
    if (finish_reason !== null) frames.push(...(await this.#end(finish_reason)));
    return frames;
  }

  close(): Frames {
    return [this.#last];
  }

  fail(error: SvcError): Frames {
    const { message } = errorBody(error).error;
    const failed = { ...this.#response('failed'), error: { code: 'server_error', message } };
    return [
      responsesErrorEvent(error, this.#numEvents++),
      this.#event('response.failed', `"response":${JSON.stringify(failed)}`),
    ];
  }

  #begin(): Frames {
    this.#hasBegun = true;
    const item = JSON.stringify(this.#message('in_progress'));
    const part = JSON.stringify(outputText('', []));
    return [
      this.#event('response.output_item.added', `"output_index":${MESSAGE},"item":${item}`),
      this.#event('response.content_part.added', `${this.#place},"part":${part}`),
    ];
  }

  async #end(finish: FinishReason): Promise<Frames> {
    const frames: string[] = this.#hasBegun ? [] : [...this.#begin()];
    const text = JSON.stringify(this.#text);
    const listed = await toJson(this.#logprobs(this.#positions));
    frames.push(
      this.#event('response.output_text.done', `${this.#place},"text":${text},"logprobs":${listed}`),
      this.#event('response.content_part.done', `${this.#place},"part":${await this.#partJson()}`),
    );
    const item = await toJson({ ...this.#message(statusOf(finish)), content: this.#content() });
    frames.push(this.#event('response.output_item.done', `"output_index":${MESSAGE},"item":${item}`));
    const response = this.#complete(finish);
    this.#last = this.#event(`response.${response.status}`, `"response":${await toJson(response)}`);
    return frames;
  }

  /** The answer at its end, which is told to whoever keeps it. */
  #complete(finish: FinishReason) {
    const status = statusOf(finish);
    const usage = responseUsage(
      this.#options.prompts[0]?.promptTokenIds.length ?? 0,
      this.#options.showsCachedTokens ? this.#numCachedTokens : 0,
      this.#numTokens,
      0,
    );
    const complete = {
      ...this.#response(status),
      incomplete_details: status === 'incomplete' ? ({ reason: 'max_output_tokens' } as const) : null,
      usage,
    };
    const message = this.#message(status);
    const content = [outputText(this.#text, [])];
    this.#onComplete({ ...complete, output: [{ ...message, content }] }, 2 * this.#text.length);
    return { ...complete, output: lazyList([message], (item) => ({ ...item, content: this.#content() })) };
  }

  #response(status: ResponseObject['status']): ResponseObject {
    return { ...this.#fields, status, error: null, incomplete_details: null, output: [] };
  }

  #message(status: MessageItem['status']): MessageItem {
    return { id: this.#messageId, type: 'message', status, role: 'assistant', content: [] };
  }

  #partJson(): Promise<string> {
    return toJson(outputText(this.#text, this.#logprobs(this.#positions)));
  }

  /** Its one part may have lists that are made while they are written. */
  #content(): Iterable<object> {
    return lazyList([null], () => outputText(this.#text, this.#logprobs(this.#positions)));
  }

  #logprobs(positions: readonly PositionLogprobs[]): Iterable<object> {
    return positions.length === 0 ? [] : chatLogprobs(positions, false).content;
  }

  /** @param fields JSON of them, without braces. */
  #event(type: string, fields: string): string {
    const number = this.#numEvents++;
    return `event: ${type}\ndata: {"type":"${type}","sequence_number":${number},${fields}}\n\n`;
  }
}

/** Whatever ended an answer but the model itself or a text to stop at has cut it off. */
function statusOf(finish: FinishReason): 'completed' | 'incomplete' {
  return finish === 'length' ? 'incomplete' : 'completed';
}
