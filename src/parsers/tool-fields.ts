// The fields in which a request says which tools the model may call, over HTTP and in a program: one schema, one wording.

import * as z from 'zod';
import { bounded, listOf } from '../util/bounded-schemas.ts';

/** Every chat sends all of them again; their text is part of the prompt. */
export const MAX_TOOLS = 1024;
/** Characters of all texts and numbers of one tool, about. */
const MAX_TOOL_SIZE = 262_144;
const MAX_DEPTH = 64;
export const MAX_NAME = 64;

const name = z
  .string()
  .min(1, 'must not be empty')
  .max(MAX_NAME)
  .regex(/^[\w.-]+$/, 'must have letters, digits, underscores, dashes and dots only');

/** JSON Schema of the arguments of a function. */
export const functionParameters = z.looseObject({
  type: z.literal('object', 'must be "object": arguments have names').optional(),
  properties: z.record(z.string(), z.unknown()).optional(),
});

/** What every protocol says of a function, in one place or another. */
export const functionFields = {
  name,
  description: z.string().nullish(),
  strict: z.boolean().nullish(),
} as const;

const functionTool = z.looseObject({
  type: z.literal('function'),
  function: z.looseObject({ ...functionFields, parameters: functionParameters.nullish() }),
});

/** What every protocol says of a custom tool. */
export const customFields = { name, description: z.string().nullish() } as const;

/** What the input of a custom tool must be. */
export const customGrammar = {
  syntax: z.literal(
    'regex',
    'must be "regex", because a grammar of Lark cannot be enforced within a call: write the grammar as a regular ' +
      'expression, or use the format {"type": "text"} and say in the description what the input must be',
  ),
  definition: z
    .string()
    .min(1, 'must not be empty')
    .refine(isRegex, 'must be a regular expression of ECMA-262'),
} as const;

/** By itself: it becomes a part of a longer one, in which its faults could mean something. */
function isRegex(text: string): boolean {
  try {
    new RegExp(text);
    return true;
  } catch {
    return false;
  }
}

export const customText = z.looseObject({ type: z.literal('text') });
export const FORMAT_ERROR = { error: 'must be "text" or "grammar"' } as const;

const customFormat = z.discriminatedUnion(
  'type',
  [customText, z.looseObject({ type: z.literal('grammar'), grammar: z.looseObject(customGrammar) })],
  FORMAT_ERROR,
);

const customTool = z.looseObject({
  type: z.literal('custom'),
  custom: z.looseObject({ ...customFields, format: customFormat.nullish() }),
});

export type CustomTool = z.output<typeof customTool>['custom'];

const OTHER_TOOLS = { error: 'must be "function" or "custom": svc knows no other tools' } as const;
const tool = z.discriminatedUnion('type', [functionTool, customTool], OTHER_TOOLS);

/** A tool as a protocol writes it. */
export function boundedTool<Out, In>(tool: z.ZodType<Out, In>) {
  return bounded(tool, MAX_TOOL_SIZE, MAX_DEPTH);
}

const named = z.looseObject({ name: z.string().max(MAX_NAME) });
const namedFunction = z.looseObject({ type: z.literal('function'), function: named });
const namedCustom = z.looseObject({ type: z.literal('custom'), custom: named });
const namedTool = z.discriminatedUnion('type', [namedFunction, namedCustom], OTHER_TOOLS);

export type NamedTool = z.output<typeof namedTool>;

export const allowedMode = z.enum(['auto', 'required']);

const allowedTools = z.looseObject({
  type: z.literal('allowed_tools'),
  allowed_tools: z.looseObject({ mode: allowedMode, tools: allowedList(namedTool) }),
});

/** The tools of a request that may be called. */
export function allowedList<T extends z.ZodType>(named: T) {
  return listOf(named, MAX_TOOLS).refine(({ length }) => length > 0, 'must have at least 1 element');
}

export const toolFields = {
  tools: listOf(boundedTool(tool), MAX_TOOLS)
    .refine(({ length }) => length > 0, 'must have at least 1 element')
    .nullish(),
  tool_choice: z
    .union(
      [
        z.enum(['none', 'auto', 'required']),
        z.discriminatedUnion('type', [namedFunction, namedCustom, allowedTools], {
          error: 'must be "function", "custom" or "allowed_tools"',
        }),
      ],
      {
        error:
          'must be "none", "auto", "required", {"type": "function", "function": {"name": "..."}}, ' +
          '{"type": "custom", "custom": {"name": "..."}} or ' +
          '{"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [...]}}',
      },
    )
    .nullish(),
  /** False: one call at most. */
  parallel_tool_calls: z.boolean().nullish(),
} as const;

export type ToolFields = z.output<z.ZodObject<typeof toolFields>>;
