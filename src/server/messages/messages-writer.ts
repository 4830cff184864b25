// Writes the answer to a request for a message: one body, or the events of a message whose blocks come one after the other.
// Each event but the usage at the end follows from the request alone, so that another instance can write the same stream.

import type { CompletedSample } from '../../engine/completed-sample.ts';
import type { OutputDelta } from '../../engine/inference-engine.ts';
import type { SvcError } from '../../errors.ts';
import { messagesErrorEvent } from '../../http/error-shapes.ts';
import type { ResponseOptions } from '../response-options.ts';
import type { Frames, ResponseWriter } from '../response-writer.ts';

type Ending = Pick<CompletedSample, 'finish_reason' | 'stop_reason'>;

/** The only block of an answer that is text. */
const TEXT_BLOCK = 0;
const DELTA_HEAD = `event: content_block_delta\ndata: {"type":"content_block_delta","index":${TEXT_BLOCK},"delta":{"type":"text_delta","text":`;

export class MessagesWriter implements ResponseWriter {
  readonly #options: ResponseOptions;
  #hasBegun = false;
  #numTokens = 0;
  #numCachedTokens = 0;
  #ending: Ending | null = null;

  constructor(options: ResponseOptions) {
    this.#options = options;
  }

  body(samples: readonly CompletedSample[]): object {
    const sample = samples[0]!;
    const { text, tokenIds, numCachedTokens } = sample;
    this.#numTokens = tokenIds.length;
    this.#numCachedTokens = numCachedTokens;
    const content = text === '' ? [] : [{ type: 'text', text, citations: null }];
    return { ...this.#head(), content, ...stopFields(sample), usage: this.#usage() };
  }

  open(): Frames {
    const beginning = { stop_reason: null, stop_sequence: null, usage: this.#usage() };
    const message = { ...this.#head(), content: [], ...beginning };
    return [event('message_start', { message }), event('ping', {})];
  }

  async delta(_choice: number, delta: OutputDelta): Promise<Frames> {
    const { text, tokenIds, finish_reason, stop_reason, numCachedTokens } = delta;
    this.#numTokens += tokenIds.length;
    this.#numCachedTokens = numCachedTokens;
    const frames: string[] = [];
    if (text !== '') {
      if (!this.#hasBegun) frames.push(...this.#begin());
      frames.push(`${DELTA_HEAD}${JSON.stringify(text)}}}\n\n`);
    }
    if (finish_reason === null) return frames;
    this.#ending = { finish_reason, stop_reason };
    if (this.#hasBegun) frames.push(event('content_block_stop', { index: TEXT_BLOCK }));
    return frames;
  }

  close(): Frames {
    const delta = this.#ending === null ? {} : stopFields(this.#ending);
    return [event('message_delta', { delta, usage: this.#usage() }), event('message_stop', {})];
  }

  fail(error: SvcError): Frames {
    return [messagesErrorEvent(error)];
  }

  #begin(): Frames {
    this.#hasBegun = true;
    const content_block = { type: 'text', text: '', citations: null };
    return [event('content_block_start', { index: TEXT_BLOCK, content_block })];
  }

  #head() {
    const { id, model } = this.#options.head;
    return { id, type: 'message', role: 'assistant', model };
  }

  /** The protocol counts what came from the cache apart. */
  #usage() {
    const numPromptTokens = this.#options.prompts[0]?.promptTokenIds.length ?? 0;
    const cached = this.#options.showsCachedTokens ? this.#numCachedTokens : 0;
    return {
      input_tokens: numPromptTokens - cached,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: cached,
      output_tokens: this.#numTokens,
    };
  }
}

function stopFields({ finish_reason, stop_reason }: Ending) {
  if (finish_reason === 'length') return { stop_reason: 'max_tokens', stop_sequence: null };
  // A number is the id of a token to stop at.
  if (typeof stop_reason === 'string') return { stop_reason: 'stop_sequence', stop_sequence: stop_reason };
  return { stop_reason: 'end_turn', stop_sequence: null };
}

function event(type: string, fields: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
}
