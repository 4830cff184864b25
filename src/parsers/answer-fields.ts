// The parts of an answer in the fields of the protocol: thoughts, content and calls, whole or as deltas.

import { type AnswerPart, answerOf } from './answer-parts.ts';
import { callId } from './call-id.ts';

export interface AnswerFieldOptions {
  /** Of the answer: ids of calls are made of it. */
  readonly id: string;
  /** Exact length of the ids of calls; null: of any length. */
  readonly idLength: number | null;
  readonly includesReasoning: boolean;
}

/** A call, or what is new of it; `index` counts the calls of the answer. */
export interface CallDelta {
  readonly index: number;
  readonly id?: string;
  readonly type?: 'function';
  readonly function: { name?: string; arguments: string };
  /** Of a custom tool, whose input its arguments are: only over HTTP, where it gets its own form. */
  readonly isCustom?: true;
}

/** What is new. */
export interface AnswerDelta {
  content?: string;
  reasoning?: string;
  /** The older name of the same. */
  reasoning_content?: string;
  tool_calls?: CallDelta[];
}

/** Turns the parts of one choice into deltas of its fields. */
export class AnswerDeltas {
  readonly #options: AnswerFieldOptions;
  readonly #choice: number;
  #numCalls = 0;
  /** Of the last call. */
  #kind: Pick<CallDelta, 'isCustom'> = {};

  constructor(options: AnswerFieldOptions, choice: number) {
    this.#options = options;
    this.#choice = choice;
  }

  get hasCalls(): boolean {
    return this.#numCalls > 0;
  }

  /** Id, type and name of a call are in its first delta only. */
  next(parts: readonly AnswerPart[]): AnswerDelta {
    const fields: AnswerDelta = {};
    for (const part of parts) {
      if (part.kind === 'content') fields.content = (fields.content ?? '') + part.text;
      else if (part.kind === 'reasoning') this.#addReasoning(fields, part.text);
      else this.#addToCalls(fields, part);
    }
    return fields;
  }

  #addReasoning(fields: AnswerDelta, text: string): void {
    if (!this.#options.includesReasoning) return;
    fields.reasoning = (fields.reasoning ?? '') + text;
    fields.reasoning_content = fields.reasoning;
  }

  #addToCalls(fields: AnswerDelta, part: Extract<AnswerPart, { kind: 'call' | 'arguments' }>): void {
    fields.tool_calls ??= [];
    if (part.kind === 'call') {
      const index = this.#numCalls++;
      const id = idOf(this.#options, this.#choice, index);
      this.#kind = part.isCustom ? { isCustom: part.isCustom } : {};
      const called = { name: part.name, arguments: '' };
      fields.tool_calls.push({ index, id, type: 'function', function: called, ...this.#kind });
      return;
    }
    const index = this.#numCalls - 1;
    const last = fields.tool_calls.at(-1);
    if (last?.index === index) last.function.arguments += part.text;
    else fields.tool_calls.push({ index, function: { arguments: part.text }, ...this.#kind });
  }
}

/** The fields of a whole message. */
export function answerFields(parts: readonly AnswerPart[], options: AnswerFieldOptions, choice: number) {
  const { content, reasoning, calls } = answerOf(parts);
  const shown = options.includesReasoning ? reasoning : null;
  return {
    content,
    tool_calls: calls.map(({ isCustom, ...call }, index) => ({
      id: idOf(options, choice, index),
      type: 'function' as const,
      function: call,
      ...(isCustom && { isCustom }),
    })),
    reasoning: shown,
    // The older name of the same.
    ...(shown !== null && { reasoning_content: shown }),
  };
}

function idOf({ id, idLength }: AnswerFieldOptions, choice: number, call: number): string {
  return callId(`${id}/${choice}`, call, idLength);
}
