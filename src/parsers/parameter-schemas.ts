// What the schemas of a function say of the types of its parameters: calls are written and read by them where a model writes values
// as bare text.

import type { FunctionTool } from './answer-parts.ts';

export type Schema = Readonly<Record<string, unknown>>;

/** References that are followed for one parameter: definitions may name each other over and over. */
const MAX_REFERENCES = 64;
/** Keywords that say nothing of what a value may be. */
const NOTES: ReadonlySet<string> = new Set([
  '$comment',
  '$defs',
  'default',
  'definitions',
  'deprecated',
  'description',
  'examples',
  'readOnly',
  'title',
  'writeOnly',
]);

interface Parameter {
  readonly name: string;
  /** With the definitions that it may refer to. */
  readonly schema: unknown;
  readonly isRequired: boolean;
}

export function parametersOf(tool: FunctionTool): readonly Parameter[] {
  const required = partsOf(tool).flatMap((part) => (Array.isArray(part.required) ? part.required : []));
  return [...propertiesOf(tool).keys()].map((name) => ({
    name,
    schema: parameterOf(tool, name),
    isRequired: required.includes(name),
  }));
}

/** The schema of one of them, with the definitions that it may refer to; undefined where there is none. */
export function parameterOf(tool: FunctionTool | undefined, name: string): unknown {
  return definedIn(tool?.parameters ?? {}, propertiesOf(tool).get(name));
}

function propertiesOf(tool: FunctionTool | undefined): ReadonlyMap<string, unknown> {
  const found = new Map<string, unknown>();
  for (const { properties } of partsOf(tool)) {
    for (const [name, schema] of isSchema(properties) ? Object.entries(properties) : []) {
      found.set(name, found.has(name) ? { allOf: [found.get(name), schema] } : schema);
    }
  }
  return found;
}

/** All that the arguments must fit: the schema of the function, what it refers to, and the parts of `allOf`. */
function partsOf(tool: FunctionTool | undefined): readonly Schema[] {
  const whole = tool?.parameters ?? {};
  const found = new Set<Schema>();
  const add = (schema: unknown): void => {
    if (!isSchema(schema) || found.has(schema) || found.size >= MAX_REFERENCES) return;
    found.add(schema);
    const { $ref, allOf } = schema;
    add(definitionOf(whole, $ref));
    for (const part of Array.isArray(allOf) ? allOf : []) add(part);
  };
  add(whole);
  return [...found];
}

/** `schema`, a part of another one, with the definitions of that which it may refer to. */
export function definedIn({ $defs, definitions }: Schema, schema: unknown): unknown {
  const shared = { ...($defs !== undefined && { $defs }), ...(definitions !== undefined && { definitions }) };
  return isSchema(schema) ? { ...schema, ...shared } : schema;
}

/** Of which a value fits one, or one at least; null where a schema has none. */
export function branchesOf({ anyOf, oneOf }: Schema): readonly unknown[] | null {
  const branches = anyOf ?? oneOf;
  return Array.isArray(branches) ? branches : null;
}

export function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The types that a schema allows; null where it does not say. */
export function typesOf(schema: unknown, references = new References()): ReadonlySet<string> | null {
  if (!isSchema(schema)) return null;
  const said = references.resolve(schema);
  const { type } = said;
  const given = typeof type === 'string' ? [type] : type;
  if (Array.isArray(given)) {
    const types = given.flatMap((one) => (one === 'number' ? ['number', 'integer'] : [String(one)]));
    return new Set(said.nullable === true ? [...types, 'null'] : types);
  }
  if ('const' in said) return new Set([typeOf(said.const)]);
  if (Array.isArray(said.enum)) return new Set(said.enum.map(typeOf));
  const branches = branchesOf(said)?.map((branch) => typesOf(definedIn(schema, branch), references)) ?? [
    null,
  ];
  return branches.includes(null) ? null : new Set(branches.flatMap((types) => [...(types ?? [])]));
}

/** Whether a schema allows any value. */
export function allowsAny(schema: unknown): boolean {
  return schema === true || (isSchema(schema) && isNote(resolved(schema)));
}

/** `schema` with what it refers to in the place of the reference. */
export function resolved(schema: Schema): Schema {
  return new References().resolve(schema);
}

class References {
  #numFollowed = 0;

  /**
   * `schema` with the definition that it refers to, or with the only part of its `allOf`, in the place of that; the same where
   * there is none, or where both have keywords of one name.
   */
  resolve(schema: Schema): Schema {
    const { $ref, allOf, ...own } = schema;
    const parts = Array.isArray(allOf) ? allOf.filter((part) => !isNote(part)) : [];
    const [said, ...others] = $ref === undefined ? parts : [definitionOf(schema, $ref), ...parts];
    if (!isSchema(said) || others.length > 0 || this.#numFollowed >= MAX_REFERENCES) return schema;
    if (Object.keys(said).some((key) => key in own && !NOTES.has(key))) return schema;
    this.#numFollowed += 1;
    return this.resolve({ ...said, ...own });
  }
}

export function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return Number.isInteger(value) ? 'integer' : typeof value;
}

function isNote(schema: unknown): boolean {
  return isSchema(schema) && Object.keys(schema).every((key) => NOTES.has(key));
}

/** Undefined where the reference names none. */
function definitionOf({ $defs, definitions }: Schema, reference: unknown): unknown {
  const [, keyword, name = ''] = /^#\/(\$defs|definitions)\/([^/]+)$/.exec(String(reference)) ?? [];
  const defined = keyword === '$defs' ? $defs : definitions;
  const key = name.replaceAll('~1', '/').replaceAll('~0', '~');
  return isSchema(defined) && Object.hasOwn(defined, key) ? defined[key] : undefined;
}
