// The requests of pooling models on the wire: embeddings as OpenAI has them, rerank as Jina and Cohere do, score as vLLM does.

import * as z from 'zod';
import { promptsSchema } from './prompt.ts';

/** Texts of one request, as OpenAI allows them. */
const MAX_INPUTS = 2048;

/** Served by all endpoints; null and absent mean the default. */
const poolingFields = {
  model: z.string().nullish(),
  truncate_prompt_tokens: z
    .int()
    .min(-1)
    .refine((tokens) => tokens !== 0, 'must be -1, or at least 1')
    .nullish(),
  priority: z.int().nullish(),
} as const;

export const embeddingSchema = z.looseObject({
  ...poolingFields,
  input: promptsSchema(MAX_INPUTS),
  encoding_format: z.enum(['float', 'base64']).nullish(),
  dimensions: z.int().min(1, 'must be at least 1').nullish(),
  add_special_tokens: z.boolean().nullish(),
  /** Of the model's own prompts, the one to put before each text; empty is none. */
  prompt_name: z.string().nullish(),
});

const text = z.string().min(1, 'must not be empty');
const texts = z.union(
  [text.transform((one) => [one]), z.array(text).min(1, 'must not be empty').max(MAX_INPUTS)],
  {
    error: 'must be a text or an array of texts',
  },
);

export const scoreSchema = z.looseObject({ ...poolingFields, text_1: texts, text_2: texts });

const document = z.union([text, z.looseObject({ text }).transform((one) => one.text)], {
  error: 'must be a text, or an object with a text',
});

export const rerankSchema = z.looseObject({
  ...poolingFields,
  query: text,
  documents: z.array(document).min(1, 'must not be empty').max(MAX_INPUTS),
  /** 0 is all. */
  top_n: z.int().min(0).nullish(),
  return_documents: z.boolean().nullish(),
});

/** Harmless: they name the user. */
export const ignoredPoolingFields: ReadonlySet<string> = new Set([
  'user',
  'request_id',
  'metadata',
  'safety_identifier',
]);

/** Names in the body that no field of `schema` has. */
export function unknownFields(schema: z.ZodObject, body: object): string[] {
  return Object.keys(body).filter(
    (name) => !Object.hasOwn(schema.shape, name) && !ignoredPoolingFields.has(name),
  );
}

export type PoolingFields = z.output<z.ZodObject<typeof poolingFields>>;
