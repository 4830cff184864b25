// The fields in which a request says which functions the model may call, over HTTP and in a program: one schema, one wording.

import * as z from 'zod';
import { bounded, listOf } from '../util/bounded-schemas.ts';

/** Every chat sends all of them again; their text is part of the prompt. */
export const MAX_TOOLS = 1024;
/** Characters of all texts and numbers of one function, about. */
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
  type: z.literal('function', 'must be "function": svc knows no other tools'),
  function: z.looseObject({ ...functionFields, parameters: functionParameters.nullish() }),
});

/** A tool as a protocol writes it. */
export function boundedTool<Out, In>(tool: z.ZodType<Out, In>) {
  return bounded(tool, MAX_TOOL_SIZE, MAX_DEPTH);
}

const namedFunction = z.looseObject({
  type: z.literal('function', 'must be "function": svc knows no other tools'),
  function: z.looseObject({ name: z.string().max(MAX_NAME) }),
});

export const allowedMode = z.enum(['auto', 'required']);

const allowedTools = z.looseObject({
  type: z.literal('allowed_tools'),
  allowed_tools: z.looseObject({ mode: allowedMode, tools: allowedList(namedFunction) }),
});

/** The functions of a request that may be called. */
export function allowedList<T extends z.ZodType>(named: T) {
  return listOf(named, MAX_TOOLS).refine(({ length }) => length > 0, 'must have at least 1 element');
}

export const toolFields = {
  tools: listOf(boundedTool(functionTool), MAX_TOOLS)
    .refine(({ length }) => length > 0, 'must have at least 1 element')
    .nullish(),
  tool_choice: z
    .union(
      [
        z.enum(['none', 'auto', 'required']),
        z.discriminatedUnion('type', [namedFunction, allowedTools], {
          error: 'must be "function" or "allowed_tools"',
        }),
      ],
      {
        error:
          'must be "none", "auto", "required", {"type": "function", "function": {"name": "..."}} or ' +
          '{"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [...]}}',
      },
    )
    .nullish(),
  /** False: one call at most. */
  parallel_tool_calls: z.boolean().nullish(),
} as const;

export type ToolFields = z.output<z.ZodObject<typeof toolFields>>;
