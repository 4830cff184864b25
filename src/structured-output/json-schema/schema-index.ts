// The schemas of a document: where each is, which names it has, and what references mean.

import { preview } from '../../util/preview.ts';
import type { Budget } from '../limits.ts';

export type JsonObject = Readonly<Record<string, unknown>>;
export type Dialect = 'draft7' | '2020-12';

export interface SchemaLocation {
  readonly id: number;
  readonly schema: boolean | JsonObject;
  /** JSON pointer from the root of the document, for messages. */
  readonly pointer: string;
  /** Base of references. */
  readonly base: string;
  readonly dialect: Dialect;
  /** Nothing in it is closed: others say more of the same value, or it says which values are meant. */
  readonly isOpen: boolean;
}

const ROOT_BASE = 'json-schema:///';
const DIALECTS: readonly (readonly [RegExp, Dialect])[] = [
  [/^https?:\/\/json-schema\.org\/draft-0[67]\/schema#?$/, 'draft7'],
  [/^https?:\/\/json-schema\.org\/draft\/20(19-09|20-12)\/schema#?$/, '2020-12'],
];
const LISTS = ['allOf', 'anyOf', 'oneOf', 'prefixItems', 'items'];
const SINGLE = [
  'additionalItems',
  'additionalProperties',
  'contains',
  'else',
  'if',
  'items',
  'not',
  'propertyNames',
  'then',
  'unevaluatedItems',
  'unevaluatedProperties',
];
const NAMED = ['$defs', 'definitions', 'dependencies', 'dependentSchemas', 'patternProperties', 'properties'];

export class SchemaIndex {
  readonly #budget: Budget;
  readonly #locations: SchemaLocation[] = [];
  readonly #bySchema = new Map<object, SchemaLocation>();
  readonly #byUri = new Map<string, SchemaLocation>();
  readonly #dynamicAnchors = new Map<string, SchemaLocation[]>();
  readonly #constants = new Map<string, SchemaLocation>();
  readonly #opened = new Map<SchemaLocation, SchemaLocation>();
  readonly root: SchemaLocation;
  readonly true: SchemaLocation;
  readonly false: SchemaLocation;
  /** What members and items a schema leaves over matters somewhere. */
  usesUnevaluated = false;

  constructor(schema: unknown, budget: Budget) {
    this.#budget = budget;
    const nowhere = { pointer: '', base: ROOT_BASE, dialect: '2020-12', isOpen: false } as const;
    this.true = this.#add({ ...nowhere, schema: true });
    this.false = this.#add({ ...nowhere, schema: false });
    this.root = this.#visit(schema, '', ROOT_BASE, '2020-12', 0);
    this.#byUri.set(ROOT_BASE, this.root);
  }

  at(id: number): SchemaLocation {
    return this.#locations[id]!;
  }

  /** A schema that is written inside another one. */
  inside(parent: SchemaLocation, schema: unknown, path: string): SchemaLocation {
    if (typeof schema === 'boolean') return schema ? this.true : this.false;
    const known = typeof schema === 'object' && schema !== null ? this.#bySchema.get(schema) : undefined;
    return known ?? this.#visit(schema, `${parent.pointer}${path}`, parent.base, parent.dialect, 0);
  }

  /** The schema of exactly this value. */
  constant(parent: SchemaLocation, value: unknown): SchemaLocation {
    const key = JSON.stringify(value);
    const known = this.#constants.get(key);
    if (known !== undefined) return known;
    const { pointer, base, dialect } = parent;
    const made = this.#add({ schema: { const: value }, pointer, base, dialect, isOpen: false });
    this.#constants.set(key, made);
    return made;
  }

  /** The same schema as one that is open. */
  opened(location: SchemaLocation): SchemaLocation {
    if (typeof location.schema === 'boolean' || location.isOpen) return location;
    const known = this.#opened.get(location);
    if (known !== undefined) return known;
    const { id: _, ...parts } = location;
    const made = this.#add({ ...parts, isOpen: true });
    this.#opened.set(location, made);
    return made;
  }

  resolve(from: SchemaLocation, reference: string): SchemaLocation {
    let uri: URL;
    try {
      uri = new URL(reference, from.base);
    } catch {
      return this.#budget.refuse(`is no reference: ${preview(reference)}`);
    }
    const fragment = decodeFragment(uri.hash.slice(1));
    uri.hash = '';
    const resource = this.#byUri.get(uri.href) ?? (uri.href === from.base ? this.root : undefined);
    if (resource === undefined)
      return this.#budget.refuse(
        `refers to ${preview(reference)}, which is not in this schema; others are not fetched`,
      );
    if (fragment === '') return resource;
    const target = fragment.startsWith('/')
      ? this.#follow(resource, fragment)
      : this.#byUri.get(`${uri.href}#${fragment}`);
    return target ?? this.#budget.refuse(`refers to ${preview(reference)}, which does not exist`);
  }

  /** What a dynamic reference means where its name has one meaning only. */
  resolveDynamic(from: SchemaLocation, reference: string): SchemaLocation {
    const target = this.resolve(from, reference);
    const name = reference.split('#')[1] ?? '';
    const others = this.#dynamicAnchors.get(name) ?? [];
    if (others.includes(target) && others.length > 1)
      this.#budget.refuse(
        `refers to ${preview(reference)}, which has several meanings; only one can be enforced`,
      );
    return target;
  }

  #follow(resource: SchemaLocation, pointer: string): SchemaLocation | undefined {
    let value: unknown = resource.schema;
    let nearest = resource;
    for (const part of pointer.slice(1).split('/')) {
      const key = part.replaceAll('~1', '/').replaceAll('~0', '~');
      if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
      value = Reflect.get(value, key);
      const known = typeof value === 'object' && value !== null ? this.#bySchema.get(value) : undefined;
      nearest = known ?? nearest;
    }
    if (typeof value !== 'boolean' && !isObject(value)) return undefined;
    return this.inside(nearest, value, `${pointer}`);
  }

  #add(parts: Omit<SchemaLocation, 'id'>): SchemaLocation {
    const location = { id: this.#locations.length, ...parts };
    this.#locations.push(location);
    return location;
  }

  #visit(schema: unknown, pointer: string, outerBase: string, outer: Dialect, depth: number): SchemaLocation {
    this.#budget.where = `The schema at ${pointer === '' ? '/' : pointer}`;
    this.#budget.spend(100);
    if (depth > this.#budget.limits.maxDepth) this.#budget.refuse('is nested too deeply');
    if (typeof schema === 'boolean') return schema ? this.true : this.false;
    if (!isObject(schema))
      return this.#budget.refuse(`must be an object or a boolean, got ${preview(schema)}`);
    const dialect = this.#dialect(schema, outer);
    const base = this.#base(schema, outerBase, dialect);
    const location = this.#add({ schema, pointer, base, dialect, isOpen: false });
    this.#bySchema.set(schema, location);
    this.#name(location, outerBase);
    this.#visitInside(location, depth + 1);
    return location;
  }

  #dialect(schema: JsonObject, outer: Dialect): Dialect {
    const { $schema } = schema;
    if ($schema === undefined) return outer;
    const known = DIALECTS.find(([pattern]) => typeof $schema === 'string' && pattern.test($schema));
    return (
      known?.[1] ??
      this.#budget.refuse(`has a $schema that is not known: ${preview($schema)}; drafts 7 and 2020-12 are`)
    );
  }

  #base({ $id, $ref }: JsonObject, outer: string, dialect: Dialect): string {
    // In draft 7 nothing beside a reference counts.
    if (typeof $id !== 'string' || (dialect === 'draft7' && $ref !== undefined)) return outer;
    try {
      const uri = new URL($id, outer);
      uri.hash = '';
      return uri.href;
    } catch {
      return this.#budget.refuse(`has an $id that is no URI: ${preview($id)}`);
    }
  }

  #name(location: SchemaLocation, outerBase: string): void {
    const { schema, base } = location;
    if (typeof schema === 'boolean') return;
    const { $id, $anchor, $dynamicAnchor } = schema;
    if (base !== outerBase) this.#byUri.set(base, location);
    if (typeof $id === 'string' && $id.startsWith('#')) this.#byUri.set(`${base}${$id}`, location);
    if (typeof $id === 'string' && $id.includes('#') && !$id.startsWith('#'))
      this.#byUri.set(new URL($id, outerBase).href, location);
    for (const anchor of [$anchor, $dynamicAnchor])
      if (typeof anchor === 'string') this.#byUri.set(`${base}#${anchor}`, location);
    if (typeof $dynamicAnchor !== 'string') return;
    this.#dynamicAnchors.set($dynamicAnchor, [...(this.#dynamicAnchors.get($dynamicAnchor) ?? []), location]);
  }

  #visitInside(location: SchemaLocation, depth: number): void {
    const schema = location.schema as JsonObject;
    const visit = (value: unknown, path: string): void => {
      if (!isObject(value)) return;
      this.#visit(value, `${location.pointer}${path}`, location.base, location.dialect, depth);
    };
    if ('unevaluatedItems' in schema || 'unevaluatedProperties' in schema) this.usesUnevaluated = true;
    for (const key of SINGLE) visit(schema[key], `/${key}`);
    for (const key of LISTS) {
      const list = schema[key];
      if (Array.isArray(list)) for (const [i, value] of list.entries()) visit(value, `/${key}/${i}`);
    }
    for (const key of NAMED) {
      const named = schema[key];
      if (isObject(named))
        for (const [name, value] of Object.entries(named)) visit(value, `/${key}/${escapePointer(name)}`);
    }
  }
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function escapePointer(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1');
}

function decodeFragment(fragment: string): string {
  try {
    return decodeURIComponent(fragment);
  } catch {
    return fragment;
  }
}
