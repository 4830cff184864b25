// The items of an answer while they are made: each piece of a part goes to the last one, or begins the next.

import type { PositionLogprobs } from '../../engine/inference-engine.ts';
import type { AnswerPart } from '../../parsers/answer-parts.ts';
import { callId } from '../../parsers/call-id.ts';
import { itemId, type OutputItem, outputText } from './items.ts';

export interface OutputEntry {
  readonly id: string;
  readonly index: number;
  readonly type: OutputItem['type'];
  /** Of a call. */
  readonly call: { readonly id: string; readonly name: string };
  text: string;
  /** Of a message. */
  readonly positions: PositionLogprobs[];
}

interface AnswerIds {
  /** Makes the ids of items and calls. */
  readonly answerId: string;
  /** Exact length of the ids of calls; null: of any length. */
  readonly idLength: number | null;
}

export class OutputEntries {
  readonly all: OutputEntry[] = [];
  readonly #ids: AnswerIds;
  #numCalls = 0;

  constructor(ids: AnswerIds) {
    this.#ids = ids;
  }

  /** The entry that the part belongs to: the last one from now on. */
  add(part: AnswerPart): OutputEntry {
    const last = this.all.at(-1);
    const entry = last !== undefined && goesOn(part, last) ? last : this.#begin(part);
    if ('text' in part) entry.text += part.text;
    return entry;
  }

  #begin(part: AnswerPart): OutputEntry {
    const type = typeOf(part);
    const index = this.all.length;
    const { answerId, idLength } = this.#ids;
    const isCall = part.kind === 'call';
    const call = isCall
      ? { id: callId(answerId, this.#numCalls++, idLength), name: part.name }
      : { id: '', name: '' };
    const entry = { id: itemId(type, answerId, index), index, type, call, text: '', positions: [] };
    this.all.push(entry);
    return entry;
  }
}

/** The text of a call is a field of its item; other items have it in parts. */
export function isCall({ type }: Pick<OutputEntry, 'type'>): boolean {
  return type === 'function_call' || type === 'custom_tool_call';
}

/** Each call begins an entry, and its arguments follow it. */
function goesOn(part: AnswerPart, last: OutputEntry): boolean {
  return part.kind === 'arguments' || (part.kind !== 'call' && last.type === typeOf(part));
}

function typeOf(part: AnswerPart): OutputItem['type'] {
  if (part.kind === 'content') return 'message';
  if (part.kind === 'reasoning') return 'reasoning';
  return 'isCustom' in part ? 'custom_tool_call' : 'function_call';
}

type Status = OutputItem['status'];

/** The item of an entry that has just begun. */
export function emptyItem({ id, type, call }: OutputEntry): OutputItem {
  const status = 'in_progress';
  switch (type) {
    case 'message':
      return { id, type, status, role: 'assistant', content: [] };
    case 'reasoning':
      return { id, type, status, summary: [], content: [] };
    case 'function_call':
      return { id, type, status, call_id: call.id, name: call.name, arguments: '' };
    case 'custom_tool_call':
      return { id, type, status, call_id: call.id, name: call.name, input: '' };
  }
}

/** The item as it is kept: without log-probabilities. */
export function keptItem(entry: OutputEntry, status: Status): OutputItem {
  const { text } = entry;
  const empty = emptyItem(entry);
  switch (empty.type) {
    case 'message':
      return { ...empty, status, content: [outputText(text, [])] };
    case 'reasoning':
      return { ...empty, status, content: [{ type: 'reasoning_text', text }] };
    case 'function_call':
      return { ...empty, status, arguments: text };
    case 'custom_tool_call':
      return { ...empty, status, input: text };
  }
}
