// The older form of tools in chat completions on the wire: `functions` and `function_call`.

import * as z from 'zod';
import {
  boundedTool,
  functionFields,
  functionParameters,
  MAX_NAME,
  MAX_TOOLS,
} from '../../parsers/tool-fields.ts';
import { listOf } from '../../util/bounded-schemas.ts';

const { name, description } = functionFields;
const describedFunction = z.looseObject({ name, description, parameters: functionParameters.nullish() });

export const legacyToolFields = {
  functions: listOf(boundedTool(describedFunction), MAX_TOOLS)
    .refine(({ length }) => length > 0, 'must have at least 1 element')
    .nullish(),
  function_call: z
    .union(
      [z.enum(['none', 'auto']), z.looseObject({ name: z.string().max(MAX_NAME) })],
      'must be "none", "auto" or {"name": "..."}',
    )
    .nullish(),
} as const;

export type LegacyToolFields = z.output<z.ZodObject<typeof legacyToolFields>>;
