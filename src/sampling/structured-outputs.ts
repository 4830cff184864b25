// The fields in which a request says what its answer must be, `structured_outputs` and `response_format`, as constraints.

import * as z from 'zod';
import { InvalidRequestError } from '../errors.ts';
import type { Constraint } from '../structured-output/constraint.ts';
import { bounded, listOf } from '../util/bounded-schemas.ts';
import { structuralTagConstraint, structuralTagFormatSchema, structuralTagSchema } from './structural-tag.ts';

/** What the answer of a request must be, and which of its fields says so. */
export interface RequestConstraint {
  readonly constraint: Constraint;
  /** As the request spells it: errors of the constraint name it. */
  readonly field: string;
}

/** `structured_outputs` as a caller writes it: exactly one of these. */
export interface StructuredOutputsInput {
  /** A JSON schema, or its text. */
  readonly json?: unknown;
  /** Any JSON object. */
  readonly json_object?: boolean | null | undefined;
  /** Of the whole answer. */
  readonly regex?: string | null | undefined;
  readonly choice?: string[] | null | undefined;
  /** In EBNF; the rule `root` is the whole answer. */
  readonly grammar?: string | null | undefined;
  /** The object, or its text. */
  readonly structural_tag?: unknown;
  /** JSON without any whitespace between its parts. */
  readonly disable_any_whitespace?: boolean | null | undefined;
  /** Objects of a JSON schema have no properties but those that it names, unless it says otherwise. */
  readonly disable_additional_properties?: boolean | null | undefined;
}

/** Characters of all texts and numbers of a constraint, about: compiling is bounded besides. */
const MAX_SIZE = 262_144;
const MAX_DEPTH = 128;
const MAX_CHOICES = 8192;

const KINDS = ['json', 'json_object', 'regex', 'choice', 'grammar', 'structural_tag'] as const;

const jsonText = z.string().transform((text, context): unknown => {
  try {
    return JSON.parse(text);
  } catch (error) {
    context.addIssue(`must be JSON: ${error instanceof Error ? error.message : error}`);
    return z.NEVER;
  }
});
const jsonSchema = z.union(
  [z.record(z.string(), z.unknown()), z.boolean()],
  'must be a JSON schema: an object, true or false',
);
const noPattern = z
  .null('must be left out: svc has no patterns of whitespace, only disable_any_whitespace')
  .optional();

const kinds = z.strictObject({
  /** The schema, or its text. */
  json: z.union([jsonText.pipe(jsonSchema), jsonSchema]).nullish(),
  json_object: z.boolean().nullish(),
  regex: z.string().nullish(),
  choice: listOf(z.string(), MAX_CHOICES)
    .refine(({ length }) => length > 0, 'must not be empty')
    .nullish(),
  grammar: z.string().nullish(),
  structural_tag: z.union([jsonText.pipe(structuralTagSchema), structuralTagSchema]).nullish(),
  disable_any_whitespace: z.boolean().nullish(),
  disable_additional_properties: z.boolean().nullish(),
  whitespace_pattern: noPattern,
});

/** The field `structured_outputs`, over HTTP and in a program. */
export const structuredOutputsSchema = bounded(
  kinds.superRefine((given, context) => {
    const used = usedKinds(given);
    if (used.length === 1) return;
    const got = used.length === 0 ? 'none' : used.join(' and ');
    context.addIssue(`must have exactly one of ${KINDS.join(', ')}, and has ${got}`);
  }),
  MAX_SIZE,
  MAX_DEPTH,
);

const responseFormat = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('text') }),
  /** Several servers take a schema here, and clients send it: what is asked for is not dropped in silence. */
  z.looseObject({ type: z.literal('json_object'), schema: jsonSchema.nullish() }),
  z.looseObject({
    type: z.literal('json_schema'),
    json_schema: z.looseObject({
      name: z.string(),
      schema: jsonSchema,
      /** The schema is kept to in either case. */
      strict: z.boolean().nullish(),
    }),
  }),
  structuralTagFormatSchema,
]);

/** The field `response_format` of HTTP. */
export const responseFormatSchema = bounded(responseFormat, MAX_SIZE, MAX_DEPTH);

const ANY_OBJECT = { type: 'object' };

export function structuredOutputsConstraint(given: z.output<typeof structuredOutputsSchema>): Constraint {
  const { json, regex, choice, grammar, structural_tag } = given;
  if (regex != null) return { kind: 'regex', pattern: regex };
  if (choice != null) return { kind: 'choice', options: choice.map((text) => ({ kind: 'literal', text })) };
  if (grammar != null) return { kind: 'grammar', ebnf: grammar };
  if (structural_tag != null) return structuralTagConstraint(structural_tag);
  const style = {
    compact: given.disable_any_whitespace ?? false,
    closedObjects: given.disable_additional_properties ?? false,
  };
  return { kind: 'jsonSchema', schema: json ?? ANY_OBJECT, style };
}

/** Null where any text will do. */
export function responseFormatConstraint(given: z.output<typeof responseFormatSchema>): Constraint | null {
  switch (given.type) {
    case 'text':
      return null;
    case 'json_object':
      return { kind: 'jsonSchema', schema: given.schema ?? ANY_OBJECT };
    case 'json_schema':
      return { kind: 'jsonSchema', schema: given.json_schema.schema };
    case 'structural_tag':
      return structuralTagConstraint(given);
  }
}

/**
 * The one constraint of a request, of those that its fields ask for.
 * @throws InvalidRequestError naming two fields that both ask for one.
 */
export function oneConstraint(asked: readonly (RequestConstraint | null)[]): RequestConstraint | null {
  const [first = null, second] = asked.filter((one) => one !== null);
  if (first === null || second === undefined) return first;
  throw new InvalidRequestError(
    `${second.field} and ${first.field} both say what the answer must be: leave one of them out`,
    { param: second.field },
  );
}

function usedKinds(given: z.output<typeof kinds>): string[] {
  return KINDS.filter(
    (kind) => given[kind] !== undefined && given[kind] !== null && (kind !== 'json_object' || given[kind]),
  );
}
