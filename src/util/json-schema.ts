// JSON Schema of zod schemas, for documents about what a server takes.

import { z } from 'zod';

/** What checks that are written by hand take, in JSON Schema. */
export const jsonForms = z.registry<{ readonly form: () => object }>();

/** Of what a client sends, before it is changed. */
export function jsonSchemaOf(schema: z.core.$ZodType): object {
  const { $schema: _, ...json } = z.toJSONSchema(schema, {
    io: 'input',
    unrepresentable: 'any',
    override: ({ zodSchema, jsonSchema }) => {
      Object.assign(jsonSchema, jsonForms.get(zodSchema)?.form());
    },
  });
  return json;
}
