// Structural tags: a format of the answer written as parts of text, in the two spellings of the protocol. The older one has
// triggers and the structures that may begin with them; the newer one has formats inside of each other.

import * as z from 'zod';
import type { Constraint, Tag } from '../structured-output/constraint.ts';
import { listOf } from '../util/bounded-schemas.ts';
import { describedAs, jsonForms } from '../util/json-schema.ts';

const MAX_PARTS = 1024;
const MAX_TEXT = 4096;
/** All of the text, where anything may be said. */
const ANY_TEXT: Constraint = { kind: 'regex', pattern: '[\\s\\S]*' };

const text = z.string().max(MAX_TEXT);
const triggers = listOf(text.min(1), MAX_PARTS).refine(({ length }) => length > 0, 'must not be empty');
const partsOf = <T extends z.ZodType>(part: T) =>
  listOf(part, MAX_PARTS).refine(({ length }) => length > 0, 'must not be empty');

/** One format of the newer spelling. */
type Format =
  | { readonly type: 'const_string'; readonly value: string }
  | { readonly type: 'json_schema'; readonly json_schema: unknown }
  | { readonly type: 'regex'; readonly pattern: string }
  | { readonly type: 'grammar'; readonly grammar: string }
  | { readonly type: 'any_text' }
  | { readonly type: 'sequence' | 'or'; readonly elements: readonly Format[] }
  | TagFormat
  | (TagsFormat & { readonly type: 'triggered_tags'; readonly triggers: readonly string[] })
  | (TagsFormat & { readonly type: 'tags_with_separator'; readonly separator: string });

export interface TagFormat {
  readonly type: 'tag';
  readonly begin: string;
  readonly content: Format;
  readonly end: string;
}

export interface TagsFormat {
  readonly tags: readonly TagFormat[];
  readonly at_least_one?: boolean | undefined;
  readonly stop_after_first?: boolean | undefined;
}

const jsonSchema = z.union([z.record(z.string(), z.unknown()), z.boolean()]);

/** @param inner formats inside of it. */
function formatOf(inner: z.ZodType<Format>): z.ZodType<Format> {
  const tag = z.object({ type: z.literal('tag'), begin: text, content: inner, end: text });
  const tags = {
    tags: partsOf(tag),
    at_least_one: z.boolean().optional(),
    stop_after_first: z.boolean().optional(),
  };
  return z.discriminatedUnion('type', [
    z.object({ type: z.literal('const_string'), value: text.min(1) }),
    z.object({ type: z.literal('json_schema'), json_schema: jsonSchema }),
    z.object({ type: z.literal('regex'), pattern: z.string() }),
    z.object({ type: z.literal('grammar'), grammar: z.string() }),
    z.object({ type: z.literal('any_text') }),
    z.object({ type: z.enum(['sequence', 'or']), elements: partsOf(inner) }),
    tag,
    z.object({ type: z.literal('triggered_tags'), triggers, ...tags }),
    z.object({ type: z.literal('tags_with_separator'), separator: text, ...tags }),
  ]);
}

/** Documents show one format; those inside of it are objects with a type. */
const outline = z.custom<Format>().register(jsonForms, {
  form: () => ({ type: 'object', properties: { type: { type: 'string' } }, required: ['type'] }),
});
const anyFormat: z.ZodType<Format> = z.lazy(() => formatOf(format));
const format: z.ZodType<Format> = describedAs(formatOf(outline), z.unknown().pipe(anyFormat));

const structure = z.object({ begin: text.min(1), schema: jsonSchema.optional(), end: text });

const fields = {
  format: format.optional(),
  structures: partsOf(structure).optional(),
  triggers: triggers.optional(),
};
const SPELLINGS = 'must have a format, or structures and triggers';

/** A structural tag by itself. */
export const structuralTagSchema = z.looseObject(fields).refine(isEitherSpelling, SPELLINGS);

/** A structural tag as a `response_format`. */
export const structuralTagFormatSchema = z
  .looseObject({ type: z.literal('structural_tag'), ...fields })
  .refine(isEitherSpelling, SPELLINGS);

interface StructuralTag {
  readonly format?: Format | undefined;
  readonly structures?: readonly z.output<typeof structure>[] | undefined;
  readonly triggers?: readonly string[] | undefined;
}

function isEitherSpelling({ format, structures, triggers }: StructuralTag): boolean {
  return (format === undefined) === (structures !== undefined && triggers !== undefined);
}

export function structuralTagConstraint(given: StructuralTag): Constraint {
  if (given.format !== undefined) return formatConstraint(given.format);
  const { structures = [], triggers = [] } = given;
  return {
    kind: 'triggeredTags',
    triggers,
    tags: structures.map(({ begin, schema = true, end }) => ({
      begin,
      content: { kind: 'jsonSchema', schema },
      end,
    })),
    atLeastOne: false,
    stopAfterFirst: false,
  };
}

function formatConstraint(given: Format): Constraint {
  switch (given.type) {
    case 'const_string':
      return { kind: 'mark', text: given.value };
    case 'json_schema':
      return { kind: 'jsonSchema', schema: given.json_schema };
    case 'regex':
      return { kind: 'regex', pattern: given.pattern };
    case 'grammar':
      return { kind: 'grammar', ebnf: given.grammar };
    case 'any_text':
      return ANY_TEXT;
    case 'sequence':
      return { kind: 'sequence', parts: given.elements.map(formatConstraint) };
    case 'or':
      return { kind: 'choice', options: given.elements.map(formatConstraint) };
    case 'tag':
      return tagConstraint(given);
    case 'triggered_tags':
      return {
        kind: 'triggeredTags',
        triggers: given.triggers,
        tags: given.tags.map(tagOf),
        atLeastOne: given.at_least_one ?? false,
        stopAfterFirst: given.stop_after_first ?? false,
      };
    case 'tags_with_separator':
      return {
        kind: 'repeat',
        item: { kind: 'choice', options: given.tags.map(tagConstraint) },
        separator: given.separator,
        min: given.at_least_one ? 1 : 0,
        max: given.stop_after_first ? 1 : null,
      };
  }
}

function tagOf({ begin, content, end }: TagFormat): Tag {
  return { begin, content: formatConstraint(content), end };
}

function tagConstraint(given: TagFormat): Constraint {
  const { begin, content, end } = tagOf(given);
  return {
    kind: 'sequence',
    parts: [{ kind: 'mark', text: begin }, content, { kind: 'mark', text: end }],
  };
}
