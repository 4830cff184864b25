// Arguments that a model writes as bare text between tags: the schema of the function says whether a text is a string or JSON.

import { InvalidRequestError } from '../errors.ts';
import type { Constraint } from '../structured-output/constraint.ts';
import { parseJson } from '../util/parse-json.ts';
import type { FunctionTool } from './answer-parts.ts';
import type { AnswerWriter } from './answer-writer.ts';
import {
  allowsAny,
  branchesOf,
  definedIn,
  isSchema,
  parameterOf,
  parametersOf,
  resolved,
  typeOf,
  typesOf,
} from './parameter-schemas.ts';
import { jsonOfPython } from './python-values.ts';
import type { Reading, TextReader } from './text-reader.ts';
import { json, literal, optional, sequence } from './tool-format.ts';

/** As Python prints them, which templates written for it show to the model. */
const PYTHON_WORDS: ReadonlyMap<string, string> = new Map([
  ['True', 'true'],
  ['False', 'false'],
  ['None', 'null'],
]);
/** Keywords for strings that cannot be enforced where the text has to end at a tag. */
const STRING_KEYWORDS = ['pattern', 'format', 'minLength', 'maxLength'];

/** Writes the arguments of one call as a JSON object, in the order in which the model gives them. */
export class ArgumentsWriter {
  readonly #writer: AnswerWriter;
  readonly #tool: FunctionTool | undefined;
  #isEmpty = true;

  /** @param tool undefined for a function that the request does not have. */
  constructor(writer: AnswerWriter, tool: FunctionTool | undefined) {
    this.#writer = writer;
    this.#tool = tool;
  }

  /** Reads the value of `name` up to one of `ends`. */
  *read(reader: TextReader, name: string, ends: readonly string[]): Reading {
    this.#writer.arguments(`${this.#isEmpty ? '{' : ', '}${JSON.stringify(name)}: `);
    this.#isEmpty = false;
    const types = typesOf(parameterOf(this.#tool, name));
    if (types?.size === 1 && types.has('string')) {
      this.#writer.arguments('"');
      yield* reader.copyUntil(ends, (text) => this.#writer.arguments(JSON.stringify(text).slice(1, -1)));
      this.#writer.arguments('"');
      return;
    }
    let text = '';
    yield* reader.copyUntil(ends, (piece) => {
      text += piece;
    });
    this.#writer.arguments(jsonOf(text, types));
  }

  end(): void {
    this.#writer.arguments(this.#isEmpty ? '{}' : '}');
  }
}

/** `text` as JSON of one of the types; a string where it is of none. */
function jsonOf(text: string, types: ReadonlySet<string> | null): string {
  const trimmed = text.trim();
  const written = PYTHON_WORDS.get(trimmed) ?? trimmed;
  const value = parseJson(written);
  if (value === undefined) return ofPython(trimmed, types) ?? JSON.stringify(text);
  const isOfThem = types === null || !types.has('string') || types.has(typeOf(value));
  // A text in quotes may well be a string that has them.
  return isOfThem && typeof value !== 'string' ? written : JSON.stringify(text);
}

/** What Python prints for a value, as templates show it to some models; null where it is none of types without texts. */
function ofPython(text: string, types: ReadonlySet<string> | null): string | null {
  if (types === null || types.has('string')) return null;
  const json = jsonOfPython(text);
  const value = json === null ? undefined : parseJson(json);
  return value !== undefined && types.has(typeOf(value)) ? json : null;
}

interface TagWriting {
  before(name: string): string;
  /** Ends the value. */
  readonly end: string;
  readonly after: string;
}

/**
 * The arguments of `tool` in the order of its schema, each between tags; those that are not required may be left out.
 * @throws InvalidRequestError naming a keyword that cannot be enforced in a text between tags.
 */
export function taggedArguments(tool: FunctionTool, tags: TagWriting): Constraint {
  const parts = parametersOf(tool).map(({ name, schema, isRequired }) => {
    const value = valueConstraint(schema, name, tags.end);
    const part = sequence(tags.before(name), value, tags.end + tags.after);
    return isRequired ? part : optional(part);
  });
  return { kind: 'sequence', parts };
}

function valueConstraint(schema: unknown, name: string, end: string): Constraint {
  const types = typesOf(schema);
  const text: Constraint = { kind: 'regex', pattern: textWithout(end.trimStart()) };
  // Whatever the text is read as, it is right.
  if (allowsAny(schema)) return text;
  if (!isSchema(schema) || types === null || !types.has('string')) return json(schema);
  const said = resolved(schema);
  const values = 'const' in said ? [said.const] : said.enum;
  if (Array.isArray(values)) {
    const texts = values.map((value) => (typeof value === 'string' ? value : JSON.stringify(value)));
    return { kind: 'choice', options: texts.map(literal) };
  }
  const keyword = STRING_KEYWORDS.find((one) => one in said);
  if (keyword !== undefined) {
    throw new InvalidRequestError(
      `tools: "${keyword}" of the parameter ${name} cannot be enforced in the way in which this model writes its calls: leave it out; ` +
        'in a custom tool use the format {"type": "text"}',
      { param: 'tools' },
    );
  }
  const branches = branchesOf(said);
  if (branches === null) return text;
  const options = branches.map((branch) => valueConstraint(definedIn(schema, branch), name, end));
  return { kind: 'choice', options };
}

/** A regular expression for any text that does not hold `tag`, whose first character is nowhere else in it. */
export function textWithout(tag: string): string {
  const [first = '', ...others] = [...tag].map(escaped);
  const other = [...others].reduceRight(
    (rest, char) => `(?:[^${first}${char}][^${first}]*${rest === null ? '' : `|${char}${rest}`})?`,
    null as string | null,
  );
  return `[^${first}]*(?:${first}${other ?? ''})*`;
}

function escaped(char: string): string {
  return /[\w\s]/.test(char) ? char : `\\${char}`;
}
