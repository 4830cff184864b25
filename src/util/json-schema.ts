// JSON Schema of zod schemas, for documents about what a server takes.

import * as z from 'zod';

/** What checks that are written by hand take, in JSON Schema. */
export const jsonForms = z.registry<{ readonly form: () => object }>();

export type JsonSchema = Omit<z.core.JSONSchema.BaseSchema, '$schema'>;

/** Of what a client sends, before it is changed. */
export function jsonSchemaOf(schema: z.core.$ZodType): JsonSchema {
  const { $schema: _, ...json } = z.toJSONSchema(schema, {
    io: 'input',
    unrepresentable: 'any',
    override: ({ zodSchema, jsonSchema }) => {
      Object.assign(jsonSchema, jsonForms.get(zodSchema)?.form());
    },
  });
  return json;
}

/** `checked`, in documents described as `schema`: a check of the size in front of it says nothing of its form. */
export function describedAs<T extends z.ZodType>(schema: z.ZodType, checked: T): T {
  jsonForms.add(checked, { form: () => jsonSchemaOf(schema) });
  return checked;
}
