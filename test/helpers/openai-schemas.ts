// The schemas of answers in the official specification of the protocol, as functions that say what is wrong with a value.

import { readFileSync } from 'node:fs';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { z } from 'zod';

const FIXTURE = new URL('../fixtures/openai/schemas.json', import.meta.url);

type Json = z.output<ReturnType<typeof z.json>>;

const document = z.looseObject({
  components: z.looseObject({ schemas: z.record(z.string(), z.json()) }),
});

/** Applies `change` to every object in `value`, the innermost first. */
function mapObjects(value: Json, change: (fields: Record<string, Json>) => Json): Json {
  if (Array.isArray(value)) return value.map((one) => mapObjects(one, change));
  if (typeof value !== 'object' || value === null) return value;
  return change(
    Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, mapObjects(inner, change)])),
  );
}

const orNull = (schema: Json): Json => ({ anyOf: [schema, { type: 'null' }] });

/** Parts are still written as in OpenAPI 3.0, where `nullable` stood for a type of its own. */
function withNulls(schema: Json): Json {
  return mapObjects(schema, ({ nullable, ...rest }) => (nullable === true ? orNull(rest) : rest));
}

/** What a chunk of a completion must be is not written down: what it lacks of an answer is null in it. */
const CHUNK_NULLS = ['finish_reason', 'usage'];

function withChunkNulls(schema: Json): Json {
  return mapObjects(schema, (fields) =>
    Object.fromEntries(
      Object.entries(fields).map(([key, inner]) => [key, CHUNK_NULLS.includes(key) ? orNull(inner) : inner]),
    ),
  );
}

/** Servers of open models have the status in `code`, a number. */
function withNumericCode(schema: Json): Json {
  return mapObjects(schema, (fields) =>
    'code' in fields ? { ...fields, code: { type: 'integer' } } : fields,
  );
}

const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true });
let isRead = false;

/** Says what is wrong with a value, as the schema `name` sees it: nothing is an empty list. */
export function faultsBy(name: string): (value: unknown) => unknown[] {
  if (!isRead) readSchemas();
  const validate: ValidateFunction = ajv.compile({ $ref: `spec#/components/schemas/${name}` });
  return (value) => (validate(value) ? [] : (validate.errors ?? []));
}

function readSchemas(): void {
  const { schemas } = document.parse(JSON.parse(readFileSync(FIXTURE, 'utf8'))).components;
  const all: Record<string, Json> = {
    ...schemas,
    CompletionChunk: withChunkNulls(schemas.CreateCompletionResponse ?? null),
    Error: withNumericCode(schemas.Error ?? null),
  };
  const written = Object.fromEntries(Object.entries(all).map(([name, schema]) => [name, withNulls(schema)]));
  ajv.addSchema({ $id: 'spec', components: { schemas: written } });
  isRead = true;
}
