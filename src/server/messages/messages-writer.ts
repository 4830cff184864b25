// Writes the answer to a request for a message: one body, or the events of a message whose blocks come one after the other.
// Each event but the usage at the end follows from the request alone, so that another instance can write the same stream.

import type { CompletedSample } from '../../engine/completed-sample.ts';
import type { OutputDelta } from '../../engine/inference-engine.ts';
import type { SvcError } from '../../errors.ts';
import { messagesErrorEvent } from '../../http/error-shapes.ts';
import { JsonText } from '../../http/json-pieces.ts';
import type { AnswerPart } from '../../parsers/answer-parts.ts';
import { callId } from '../../parsers/call-id.ts';
import { parseJson } from '../../util/parse-json.ts';
import { plainParts } from '../plain-parts.ts';
import type { ResponseOptions } from '../response-options.ts';
import type { Frames, ResponseWriter } from '../response-writer.ts';

type Ending = Pick<CompletedSample, 'finish_reason' | 'stop_reason' | 'isCallCut'>;
/** A block, as the part that began it. */
type BlockKind = Exclude<AnswerPart['kind'], 'arguments'>;

interface MessagesWriterOptions {
  readonly options: ResponseOptions;
  /** Exact length of the ids of calls; null: of any length. */
  readonly idLength: number | null;
  readonly showsThinking: boolean;
}

export class MessagesWriter implements ResponseWriter {
  readonly #options: ResponseOptions;
  readonly #idLength: number | null;
  readonly #showsThinking: boolean;
  /** Null before the first block. */
  #block: BlockKind | null = null;
  #numBlocks = 0;
  #numCalls = 0;
  readonly #tokens = { all: 0, cached: 0 };
  #ending: Ending | null = null;

  constructor({ options, idLength, showsThinking }: MessagesWriterOptions) {
    this.#options = options;
    this.#idLength = idLength;
    this.#showsThinking = showsThinking;
  }

  body(samples: readonly CompletedSample[]): object {
    const sample = samples[0]!;
    this.#count(sample);
    // As an iterable: inputs of tools are JsonText.
    const content = this.#blocks(sample).values();
    return { ...this.#head(), content, ...this.#stopFields(sample), usage: this.#usage() };
  }

  open(): Frames {
    const beginning = { stop_reason: null, stop_sequence: null, usage: this.#usage() };
    const message = { ...this.#head(), content: [], ...beginning };
    return [event('message_start', { message }), event('ping', {})];
  }

  async delta(_choice: number, delta: OutputDelta): Promise<Frames> {
    this.#count(delta);
    const frames = this.#shown(delta).flatMap((part) => this.#part(part));
    const { finish_reason, stop_reason, isCallCut } = delta;
    if (finish_reason === null) return frames;
    this.#ending = { finish_reason, stop_reason, isCallCut };
    return [...frames, ...this.#closeBlock()];
  }

  close(): Frames {
    const delta = this.#ending === null ? {} : this.#stopFields(this.#ending);
    return [event('message_delta', { delta, usage: this.#usage() }), event('message_stop', {})];
  }

  fail(error: SvcError): Frames {
    return [messagesErrorEvent(error)];
  }

  #count({ tokenIds, numCachedTokens }: OutputDelta): void {
    this.#tokens.all += tokenIds.length;
    this.#tokens.cached = numCachedTokens;
  }

  #shown(delta: OutputDelta): readonly AnswerPart[] {
    return plainParts(delta).filter(({ kind }) => kind !== 'reasoning' || this.#showsThinking);
  }

  #part(part: AnswerPart): Frames {
    const isSame = part.kind === 'arguments' || (part.kind === this.#block && part.kind !== 'call');
    const frames = isSame ? [] : [...this.#closeBlock(), this.#openBlock(part)];
    if (!('text' in part)) return frames;
    const index = this.#numBlocks - 1;
    return [...frames, event('content_block_delta', { index, delta: deltaOf(part) })];
  }

  #openBlock(part: Exclude<AnswerPart, { kind: 'arguments' }>): string {
    this.#block = part.kind;
    const content_block = part.kind === 'call' ? this.#call(part.name, {}) : textBlock(part.kind, '');
    return event('content_block_start', { index: this.#numBlocks++, content_block });
  }

  #closeBlock(): Frames {
    return this.#block === null ? [] : [event('content_block_stop', { index: this.#numBlocks - 1 })];
  }

  #blocks(sample: CompletedSample): object[] {
    const joined: { kind: BlockKind; name: string; text: string }[] = [];
    for (const part of this.#shown(sample)) {
      const last = joined.at(-1);
      if (part.kind === 'call') joined.push({ kind: part.kind, name: part.name, text: '' });
      else if (part.kind === 'arguments' || part.kind === last?.kind) last!.text += part.text;
      else joined.push({ kind: part.kind, name: '', text: part.text });
    }
    return joined.map(({ kind, name, text }) =>
      kind === 'call' ? this.#call(name, inputOf(text)) : textBlock(kind, text),
    );
  }

  #call(name: string, input: object): object {
    const id = callId(this.#options.head.id, this.#numCalls++, this.#idLength);
    return { type: 'tool_use', id, name, input };
  }

  #head() {
    const { id, model } = this.#options.head;
    return { id, type: 'message', role: 'assistant', model };
  }

  /** The protocol counts what came from the cache apart. */
  #usage() {
    const numPromptTokens = this.#options.prompts[0]?.promptTokenIds.length ?? 0;
    const cached = this.#options.showsCachedTokens ? this.#tokens.cached : 0;
    return {
      input_tokens: numPromptTokens - cached,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: cached,
      output_tokens: this.#tokens.all,
    };
  }

  #stopFields({ finish_reason, stop_reason, isCallCut }: Ending) {
    if (finish_reason === 'length') return { stop_reason: 'max_tokens', stop_sequence: null };
    // A number is the id of a token to stop at.
    if (typeof stop_reason === 'string') return { stop_reason: 'stop_sequence', stop_sequence: stop_reason };
    const isForCalls = this.#numCalls > 0 && !isCallCut;
    return { stop_reason: isForCalls ? 'tool_use' : 'end_turn', stop_sequence: null };
  }
}

/** Arguments that were cut off are no JSON: then the input is empty. */
function inputOf(written: string): object {
  return parseJson(written) === undefined ? {} : new JsonText(written);
}

function textBlock(kind: 'content' | 'reasoning', text: string): object {
  if (kind === 'content') return { type: 'text', text, citations: null };
  // Thoughts come back as they are: nothing needs to be signed.
  return { type: 'thinking', thinking: text, signature: '' };
}

function deltaOf({ kind, text }: Extract<AnswerPart, { text: string }>): object {
  switch (kind) {
    case 'content':
      return { type: 'text_delta', text };
    case 'reasoning':
      return { type: 'thinking_delta', thinking: text };
    case 'arguments':
      return { type: 'input_json_delta', partial_json: text };
  }
}

function event(type: string, fields: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
}
