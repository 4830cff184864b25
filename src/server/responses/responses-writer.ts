// Writes the answer to a request for a response: one body, or typed events that count themselves. Each event follows from the
// request alone, so that another instance can write the same stream.

import type { CompletedSample } from '../../engine/completed-sample.ts';
import type { OutputDelta, PositionLogprobs } from '../../engine/inference-engine.ts';
import type { SvcError } from '../../errors.ts';
import { responsesErrorEvent } from '../../http/error-shapes.ts';
import { errorBody } from '../../http/errors.ts';
import { lazyList, toJson } from '../../http/json-pieces.ts';
import type { AnswerPart } from '../../parsers/answer-parts.ts';
import { chatLogprobs } from '../chat/chat-logprobs.ts';
import { plainParts } from '../plain-parts.ts';
import type { ResponseOptions } from '../response-options.ts';
import type { Frames, ResponseWriter } from '../response-writer.ts';
import { type OutputItem, outputText } from './items.ts';
import { emptyItem, isCall, keptItem, OutputEntries, type OutputEntry } from './output-entries.ts';
import { type ResponseFields, type ResponseObject, responseUsage } from './response-object.ts';

/** Names of the events of a text, by the item that it is in. */
const TEXT_EVENTS = {
  message: 'output_text',
  reasoning: 'reasoning_text',
  function_call: 'function_call_arguments',
  custom_tool_call: 'custom_tool_call_input',
} as const;

/** How an answer ended, in the fields of the response. */
interface Ending extends Pick<ResponseObject, 'incomplete_details'> {
  readonly status: 'completed' | 'incomplete';
}

interface ResponsesWriterOptions {
  readonly options: ResponseOptions;
  readonly fields: ResponseFields;
  /** Makes the ids of items and calls. */
  readonly answerId: string;
  /** Exact length of the ids of calls; null: of any length. */
  readonly idLength: number | null;
  /** Called once, with an answer that is complete and holds lists only. */
  readonly onComplete: (response: ResponseObject) => void;
}

export class ResponsesWriter implements ResponseWriter {
  readonly #options: ResponseOptions;
  readonly #fields: ResponseFields;
  readonly #onComplete: ResponsesWriterOptions['onComplete'];
  readonly #entries: OutputEntries;
  #numEvents = 0;
  readonly #tokens = { all: 0, reasoning: 0, cached: 0 };
  /** Of tokens that no event has told of yet. */
  #positions: PositionLogprobs[] = [];
  /** The last event, made with the last delta. */
  #last = '';

  constructor({ options, fields, answerId, idLength, onComplete }: ResponsesWriterOptions) {
    this.#options = options;
    this.#fields = fields;
    this.#onComplete = onComplete;
    this.#entries = new OutputEntries({ answerId, idLength });
  }

  body(samples: readonly CompletedSample[]): object {
    const sample = samples[0]!;
    for (const delta of sample.deltas) {
      this.#count(delta);
      for (const part of plainParts(delta)) this.#add(part);
    }
    for (const part of this.#lastParts()) this.#add(part);
    return this.#complete(endingOf(sample));
  }

  open(): Frames {
    const response = JSON.stringify(this.#response('in_progress'));
    return [
      this.#event('response.created', `"response":${response}`),
      this.#event('response.in_progress', `"response":${response}`),
    ];
  }

  async delta(_choice: number, delta: OutputDelta): Promise<Frames> {
    this.#count(delta);
    const frames: string[] = [];
    for (const part of plainParts(delta)) frames.push(...(await this.#part(part)));
    if (delta.finish_reason !== null) frames.push(...(await this.#end(endingOf(delta))));
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

  #count({ tokenIds, numReasoningTokens, numCachedTokens, logprobs }: OutputDelta): void {
    this.#tokens.all += tokenIds.length;
    this.#tokens.reasoning += numReasoningTokens;
    this.#tokens.cached = numCachedTokens;
    // Thoughts come first, and their tokens are not told.
    for (const position of (logprobs ?? []).slice(numReasoningTokens)) this.#positions.push(position);
  }

  /** `positions` are those that are told with the part: of all tokens that none has told of yet. */
  #add(part: AnswerPart): { readonly entry: OutputEntry; readonly positions: readonly PositionLogprobs[] } {
    const entry = this.#entries.add(part);
    if (entry.type === 'reasoning') return { entry, positions: [] };
    const positions = this.#positions;
    this.#positions = [];
    if (isCall(entry)) return { entry, positions: [] };
    for (const position of positions) entry.positions.push(position);
    return { entry, positions };
  }

  /** An answer without a word is an empty message, and tokens without a text belong to what was said before them. */
  #lastParts(): readonly AnswerPart[] {
    const last = this.#entries.all.at(-1);
    return last === undefined || last.type === 'message' ? [{ kind: 'content', text: '' }] : [];
  }

  async #part(part: AnswerPart): Promise<Frames> {
    const before = this.#entries.all.at(-1);
    const { entry, positions } = this.#add(part);
    const frames: string[] = [];
    if (entry !== before) {
      if (before !== undefined) frames.push(...(await this.#close(before, 'completed')));
      frames.push(...this.#begin(entry));
    }
    const isTold = 'text' in part && (part.text !== '' || positions.length > 0);
    if (isTold) frames.push(await this.#textDelta(entry, part.text, positions));
    return frames;
  }

  #begin(entry: OutputEntry): Frames {
    const added = `"output_index":${entry.index},"item":${JSON.stringify(emptyItem(entry))}`;
    const item = this.#event('response.output_item.added', added);
    if (isCall(entry)) return [item];
    const part = JSON.stringify(partOf(entry, ''));
    return [item, this.#event('response.content_part.added', `${placeOf(entry)},"part":${part}`)];
  }

  async #textDelta(
    entry: OutputEntry,
    text: string,
    positions: readonly PositionLogprobs[],
  ): Promise<string> {
    const said = `${placeOf(entry)},"delta":${JSON.stringify(text)}`;
    const name = `response.${TEXT_EVENTS[entry.type]}.delta`;
    if (entry.type !== 'message') return this.#event(name, said);
    return this.#event(name, `${said},"logprobs":${await toJson(logprobsOf(positions))}`);
  }

  async #close(entry: OutputEntry, status: OutputItem['status']): Promise<Frames> {
    const { type, index, call } = entry;
    const done = `response.${TEXT_EVENTS[type]}.done`;
    const place = placeOf(entry);
    const text = JSON.stringify(entry.text);
    const frames: string[] = [];
    if (type === 'function_call') {
      const name = JSON.stringify(call.name);
      frames.push(this.#event(done, `${place},"name":${name},"arguments":${text}`));
    } else if (type === 'custom_tool_call') {
      frames.push(this.#event(done, `${place},"input":${text}`));
    } else {
      const logprobs = type === 'message' ? `,"logprobs":${await toJson(logprobsOf(entry.positions))}` : '';
      const part = await toJson(partOf(entry, entry.text, logprobsOf(entry.positions)));
      frames.push(
        this.#event(done, `${place},"text":${text}${logprobs}`),
        this.#event('response.content_part.done', `${place},"part":${part}`),
      );
    }
    const item = await toJson(writtenItem(entry, status));
    return [...frames, this.#event('response.output_item.done', `"output_index":${index},"item":${item}`)];
  }

  async #end(ending: Ending): Promise<Frames> {
    const frames: string[] = [];
    for (const part of this.#lastParts()) frames.push(...(await this.#part(part)));
    frames.push(...(await this.#close(this.#entries.all.at(-1)!, ending.status)));
    const response = this.#complete(ending);
    this.#last = this.#event(`response.${response.status}`, `"response":${await toJson(response)}`);
    return frames;
  }

  /** The answer at its end, which is told to whoever keeps it. */
  #complete({ status, incomplete_details }: Ending) {
    const { all, reasoning, cached } = this.#tokens;
    const numPromptTokens = this.#options.prompts[0]?.promptTokenIds.length ?? 0;
    const shownCached = this.#options.showsCachedTokens ? cached : 0;
    const complete = {
      ...this.#response(status),
      incomplete_details,
      usage: responseUsage(numPromptTokens, shownCached, all, reasoning),
    };
    const entries = this.#entries.all;
    // Only the last item can have been cut off.
    const statusAt = (index: number): OutputItem['status'] =>
      index === entries.length - 1 ? status : 'completed';
    const output = entries.map((entry, index) => keptItem(entry, statusAt(index)));
    this.#onComplete({ ...complete, output });
    return { ...complete, output: lazyList(entries, (entry, index) => writtenItem(entry, statusAt(index))) };
  }

  #response(status: ResponseObject['status']): ResponseObject {
    return { ...this.#fields, status, error: null, incomplete_details: null, output: [] };
  }

  /** @param fields JSON of them, without braces. */
  #event(type: string, fields: string): string {
    const number = this.#numEvents++;
    return `event: ${type}\ndata: {"type":"${type}","sequence_number":${number},${fields}}\n\n`;
  }
}

/** The item as the client gets it: lists in it are made while they are written. */
function writtenItem(entry: OutputEntry, status: OutputItem['status']): object {
  const kept = keptItem(entry, status);
  if (entry.type !== 'message') return kept;
  return {
    ...kept,
    content: lazyList([entry], ({ text, positions }) => partOf(entry, text, logprobsOf(positions))),
  };
}

function partOf({ type }: OutputEntry, text: string, logprobs: Iterable<object> = []): object {
  return type === 'message' ? outputText(text, logprobs) : { type: 'reasoning_text', text };
}

/** Fields that tell where a piece of text belongs. */
function placeOf(entry: OutputEntry): string {
  const { id, index } = entry;
  const place = `"item_id":${JSON.stringify(id)},"output_index":${index}`;
  return isCall(entry) ? place : `${place},"content_index":0`;
}

function logprobsOf(positions: readonly PositionLogprobs[]): Iterable<object> {
  return positions.length === 0 ? [] : chatLogprobs(positions, false).content;
}

/**
 * Whatever ended an answer but the model itself has cut it off, and so has what the request stops at within a call. The
 * protocol has a reason for the length alone.
 */
function endingOf({ finish_reason, isCallCut }: OutputDelta): Ending {
  const isComplete = finish_reason === 'stop' && !isCallCut;
  return {
    status: isComplete ? 'completed' : 'incomplete',
    incomplete_details: finish_reason === 'length' ? { reason: 'max_output_tokens' } : null,
  };
}
