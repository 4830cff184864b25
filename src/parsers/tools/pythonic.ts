// Llama 3.2, Llama 4 and others: the whole answer is a list of calls in the syntax of Python. Their arguments leave as JSON.

import type { Constraint } from '../../structured-output/constraint.ts';
import type { FunctionTool } from '../answer-parts.ts';
import type { AnswerWriter } from '../answer-writer.ts';
import { parametersOf } from '../parameter-schemas.ts';
import { copyPythonValue } from '../python-values.ts';
import type { Reading, TextReader } from '../text-reader.ts';
import { json, literal, optional, sequence, type ToolFormat } from '../tool-format.ts';

const BEGIN = '<|python_start|>';
const END = '<|python_end|>';
/** Functions and arguments may have names that Python has not. */
const NAME = /[\w.-]/;

export const pythonic: ToolFormat = {
  tokens: [BEGIN, END],
  *read(reader, writer, tools) {
    const isTagged = yield* reader.takeIf(BEGIN);
    const isList = yield* readPythonList(reader, writer, tools);
    if (isTagged && isList) yield* reader.takeIf(END);
    else if (isTagged) writer.content(BEGIN);
    yield* reader.copyUntil([], (text) => writer.content(text));
  },
  writing: {
    trigger: null,
    otherAnswers: '\\s*([^\\s[<][\\s\\S]*|<([^|][\\s\\S]*)?)?',
    begin: '[',
    call: pythonCall,
    separator: ', ',
    end: ']',
  },
};

/** `[f(a=1), g()]`; false, and nothing is read, where there is no such list. */
export function* readPythonList(
  reader: TextReader,
  writer: AnswerWriter,
  tools: readonly FunctionTool[],
): Reading<boolean> {
  const first = yield* reader.attempt(() => readHead(reader, tools, true));
  for (let head = first; head !== null; head = yield* readNext(reader, tools)) {
    yield* readPythonArguments(reader, writer, head);
  }
  return first !== null;
}

interface PythonCallHead {
  readonly name: string;
  /** That the function has. */
  readonly parameters: readonly string[];
  /** Null where it has no arguments. */
  readonly argument: string | null;
}

/** `[name(argument=`, or `[name()` as a whole; behind another call with a comma in the place of the bracket. */
function* readHead(
  reader: TextReader,
  tools: readonly FunctionTool[],
  isFirst: boolean,
): Reading<PythonCallHead | null> {
  yield* reader.advanceOverSpace();
  if (!(yield* reader.takeIf(isFirst ? '[' : ','))) return null;
  return yield* readPythonHead(reader, tools);
}

/** `name(argument=`, or `name()` as a whole; null for what is no call of one of `tools`. */
export function* readPythonHead(
  reader: TextReader,
  tools: readonly FunctionTool[],
): Reading<PythonCallHead | null> {
  yield* reader.advanceOverSpace();
  const name = yield* reader.takeWhile(NAME);
  const tool = tools.find((one) => one.name === name);
  if (tool === undefined || !(yield* reader.takeIf('('))) return null;
  const parameters = parametersOf(tool).map((parameter) => parameter.name);
  yield* reader.advanceOverSpace();
  if (yield* reader.takeIf(')')) return { name, parameters, argument: null };
  const argument = yield* readArgumentName(reader, parameters);
  return argument === null ? null : { name, parameters, argument };
}

/** The call after another one, or the end of the list. */
function* readNext(reader: TextReader, tools: readonly FunctionTool[]): Reading<PythonCallHead | null> {
  const head = yield* reader.attempt(() => readHead(reader, tools, false));
  if (head !== null) return head;
  yield* reader.advanceOverSpace();
  yield* reader.takeIf(']');
  return null;
}

/** What follows the head of a call, to its end. */
export function* readPythonArguments(
  reader: TextReader,
  writer: AnswerWriter,
  head: PythonCallHead,
): Reading {
  writer.call(head.name);
  if (head.argument === null) {
    writer.arguments('{}');
    return;
  }
  let before = '{';
  for (let name: string | null = head.argument; name !== null; ) {
    writer.arguments(`${before}${JSON.stringify(name)}: `);
    before = ', ';
    yield* copyPythonValue(reader, (json) => writer.arguments(json));
    yield* reader.advanceOverSpace();
    name = (yield* reader.takeIf(',')) ? yield* readArgumentName(reader, head.parameters) : null;
  }
  writer.arguments('}');
  yield* reader.advanceOverSpace();
  yield* reader.takeIf(')');
}

/** `name=`; one of `parameters` may have any characters. */
function* readArgumentName(reader: TextReader, parameters: readonly string[]): Reading<string | null> {
  yield* reader.advanceOverSpace();
  for (const own of parameters) if (yield* reader.takeIf(`${own}=`)) return own;
  const name = yield* reader.takeWhile(NAME);
  yield* reader.advanceOverSpace();
  if (name === '' || !(yield* reader.takeIf('='))) return null;
  yield* reader.advanceOverSpace();
  return name;
}

/** Values are written as JSON, which is read as well; those that may be left out come last. */
export function pythonCall(tool: FunctionTool): Constraint {
  const written = parametersOf(tool).map(({ name, schema, isRequired }) => ({
    isRequired,
    argument: sequence(`${name}=`, json(schema)),
  }));
  const needed = written.filter(({ isRequired }) => isRequired).map(({ argument }) => argument);
  const others = written.filter(({ isRequired }) => !isRequired).map(({ argument }) => argument);
  const rest = (from: number): Constraint[] =>
    others.slice(from).map((argument) => optional(sequence(', ', argument)));
  const [first, ...further] = needed;
  if (first !== undefined) {
    return sequence(`${tool.name}(`, first, ...further.map((one) => sequence(', ', one)), ...rest(0), ')');
  }
  const begins = others.map((argument, index) => sequence(argument, ...rest(index + 1)));
  return sequence(`${tool.name}(`, { kind: 'choice', options: [literal(''), ...begins] }, ')');
}
