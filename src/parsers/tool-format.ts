// What a format of tool calls is: how its calls are read from an answer, and how they are written.

import type { Constraint, JsonStyle } from '../structured-output/constraint.ts';
import type { FunctionTool } from './answer-parts.ts';
import type { AnswerWriter } from './answer-writer.ts';
import type { ThoughtTags } from './reasoning-format.ts';
import type { Reading, TextReader } from './text-reader.ts';

export interface ToolFormat {
  /** Texts of special tokens that it is read by: they must not be left out of the text. */
  readonly tokens: readonly string[];
  /** Reads an answer to its end, whose thought has been read. What is no call is content, unchanged. */
  read(reader: TextReader, writer: AnswerWriter, tools: readonly FunctionTool[]): Reading;
  readonly writing: CallWriting;
  /** Characters of the id of a call, where the model knows only such. */
  readonly idLength?: number;
  /** It reads thoughts as well, which are between these. */
  readonly thoughts?: ThoughtTags;
  /** What an answer that is no call begins with, where the prompt ends in `turn`. */
  readonly answer?: { readonly turn: string; readonly begin: string };
}

/** Calls as the model was trained to write them: `begin call separator call ... end`. */
export interface CallWriting {
  /** How `begin` begins, where that may be anywhere in an answer; null where calls are the whole answer. */
  readonly trigger: string | null;
  /** What else a call of one of `names` may begin with when it is read, though it is not written so. */
  alsoRead?(names: readonly string[]): readonly string[];
  /** Without a trigger: a pattern of the answers that are read as no calls. */
  readonly otherAnswers?: string;
  readonly begin: string;
  /** @throws InvalidRequestError naming a keyword of the schema that cannot be enforced in this format. */
  call(tool: FunctionTool): Constraint;
  /** Null where an answer has one call only. */
  readonly separator: string | null;
  readonly end: string;
}

/** Copies text, and lets `readCalls` read on after each `begin`; where it finds no call, `begin` is text as well. */
export function* readAfterEach(
  begin: string,
  reader: TextReader,
  writer: AnswerWriter,
  readCalls: () => Reading<boolean>,
): Reading {
  while ((yield* reader.copyUntil([begin], (text) => writer.content(text))) !== null) {
    const isCall = yield* readCalls();
    if (!isCall) writer.content(begin);
  }
}

export function literal(text: string): Constraint {
  return { kind: 'literal', text };
}

/** A part that models write with their special tokens. */
function mark(text: string): Constraint {
  return { kind: 'mark', text };
}

/** Texts among the parts are marks. */
export function sequence(...parts: readonly (string | Constraint)[]): Constraint {
  return { kind: 'sequence', parts: parts.map((part) => (typeof part === 'string' ? mark(part) : part)) };
}

export function optional(item: Constraint): Constraint {
  return { kind: 'choice', options: [literal(''), item] };
}

/** JSON without what a caller does not expect: arguments that the schema does not name, and space that a small model never ends. */
export function json(schema: unknown, style: JsonStyle = {}): Constraint {
  return { kind: 'jsonSchema', schema, style: { compact: true, closedObjects: true, ...style } };
}

/** The arguments of a call as JSON. */
export function jsonArguments({ parameters }: FunctionTool, style: JsonStyle = {}): Constraint {
  const isEmpty = Object.keys(parameters ?? {}).length === 0;
  // Arguments have names, though not every schema says so.
  return isEmpty ? literal('{}') : json({ type: 'object', ...parameters }, style);
}

/** A call as `{"name": "f", "arguments": {...}}`. */
export function jsonCall(tool: FunctionTool): Constraint {
  return sequence(`{"name": ${JSON.stringify(tool.name)}, "arguments": `, jsonArguments(tool), '}');
}

export function namesOf(tools: readonly FunctionTool[]): ReadonlySet<string> {
  return new Set(tools.map(({ name }) => name));
}
