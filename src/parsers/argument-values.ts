// Arguments that a model writes as bare text between tags: the schema of the function says whether a text is a string or JSON.

import { InvalidRequestError } from '../errors.ts';
import type { Constraint } from '../structured-output/constraint.ts';
import { parseJson } from '../util/parse-json.ts';
import type { FunctionTool } from './answer-parts.ts';
import type { AnswerWriter } from './answer-writer.ts';
import type { Reading, TextReader } from './text-reader.ts';
import { json, literal, optional, sequence } from './tool-format.ts';

type Schema = Readonly<Record<string, unknown>>;

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
    const types = typesOf(propertiesOf(this.#tool)[name]);
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
  const isJson = value !== undefined && (types === null || !types.has('string') || types.has(typeOf(value)));
  // A text in quotes may well be a string that has them.
  return isJson && typeof value !== 'string' ? written : JSON.stringify(text);
}

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return Number.isInteger(value) ? 'integer' : typeof value;
}

/** The types that a schema allows; null where it does not say. */
function typesOf(schema: unknown): ReadonlySet<string> | null {
  if (!isSchema(schema)) return null;
  const { type } = schema;
  const given = typeof type === 'string' ? [type] : type;
  if (Array.isArray(given)) {
    const types = given.flatMap((one) => (one === 'number' ? ['number', 'integer'] : [String(one)]));
    return new Set(schema.nullable === true ? [...types, 'null'] : types);
  }
  if ('const' in schema) return new Set([typeOf(schema.const)]);
  if (Array.isArray(schema.enum)) return new Set(schema.enum.map(typeOf));
  const each = branchesOf(schema)?.map(typesOf) ?? [null];
  return each.includes(null) ? null : new Set(each.flatMap((types) => [...(types ?? [])]));
}

/** Of which a value fits one, or one at least; null where a schema has none. */
function branchesOf({ anyOf, oneOf }: Schema): readonly unknown[] | null {
  const branches = anyOf ?? oneOf;
  return Array.isArray(branches) ? branches : null;
}

/** `schema`, a part of another one, with the definitions of that which it may refer to. */
function withDefinitionsOf({ $defs, definitions }: Schema, schema: unknown): unknown {
  const shared = { ...($defs !== undefined && { $defs }), ...(definitions !== undefined && { definitions }) };
  return isSchema(schema) ? { ...schema, ...shared } : schema;
}

function propertiesOf(tool: FunctionTool | undefined): Schema {
  const properties = tool?.parameters?.properties;
  return isSchema(properties) ? properties : {};
}

function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

interface TagWriting {
  before(name: string): string;
  /** Ends the value. */
  readonly end: string;
  readonly after: string;
}

interface Parameter {
  readonly name: string;
  /** With the definitions that it may refer to. */
  readonly schema: unknown;
  readonly isRequired: boolean;
}

export function parametersOf(tool: FunctionTool): readonly Parameter[] {
  const { required } = tool.parameters ?? {};
  return Object.entries(propertiesOf(tool)).map(([name, schema]) => ({
    name,
    schema: withDefinitionsOf(tool.parameters ?? {}, schema),
    isRequired: Array.isArray(required) && required.includes(name),
  }));
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
  if (!isSchema(schema) || types === null || !types.has('string')) return json(schema);
  const values = 'const' in schema ? [schema.const] : schema.enum;
  if (Array.isArray(values)) {
    const texts = values.map((value) => (typeof value === 'string' ? value : JSON.stringify(value)));
    return { kind: 'choice', options: texts.map(literal) };
  }
  const keyword = STRING_KEYWORDS.find((one) => one in schema);
  if (keyword !== undefined) {
    throw new InvalidRequestError(
      `tools: "${keyword}" of the parameter ${name} cannot be enforced in the way in which this model writes its calls: leave it out; ` +
        'in a custom tool use the format {"type": "text"}',
      { param: 'tools' },
    );
  }
  const branches = branchesOf(schema);
  if (branches !== null) {
    const options = branches.map((branch) => valueConstraint(withDefinitionsOf(schema, branch), name, end));
    return { kind: 'choice', options };
  }
  return { kind: 'regex', pattern: textWithout(end.trimStart()) };
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
