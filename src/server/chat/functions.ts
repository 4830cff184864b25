// The older form of tools: on the way in `functions` and `function_call` become tools, of which one at most is called; on the
// way out the call has its older field.

import { InvalidRequestError } from '../../errors.ts';
import type { CallDelta } from '../../parsers/answer-fields.ts';
import type { ToolFields } from '../../parsers/tool-fields.ts';
import type { LegacyToolFields } from '../protocol/functions.ts';
import { rethrowRenamed } from '../read-sampling.ts';

/** Where errors of tools name a field that the older form has under another name. */
const FIELD_NAMES = { tools: 'functions', tool_choice: 'function_call' };

/** @returns what throws an error of a request's tools again, with the field that the request has. */
export function blameTools(body: LegacyToolFields): (error: unknown) => never {
  return rethrowRenamed(hasFunctions(body) ? FIELD_NAMES : {});
}

export function hasFunctions({ functions }: LegacyToolFields): boolean {
  return functions != null;
}

/**
 * What a request says of functions in either form, in the newer one.
 * @throws InvalidRequestError for a request that uses both, or names a choice without functions.
 */
export function toolFieldsOf(body: ToolFields & LegacyToolFields): ToolFields {
  const { functions, function_call } = body;
  if (functions == null) {
    if (function_call == null || function_call === 'none') return body;
    throw legacyError(
      'function_call',
      'is only for requests with functions: give functions, or leave it out',
    );
  }
  if (body.tools != null || body.tool_choice != null) {
    throw legacyError('functions', 'is the older form of tools: use one of the two');
  }
  return {
    tools: functions.map((one) => ({ type: 'function', function: one })),
    tool_choice:
      typeof function_call === 'object' && function_call !== null
        ? { type: 'function', function: { name: function_call.name } }
        : function_call,
    parallel_tool_calls: false,
  };
}

/** Fields of a message, or of what is new of it. */
export interface CallFields {
  readonly tool_calls?: readonly Omit<CallDelta, 'index'>[];
}

/** The same with the one call in the older form. */
export function withFunctionCall({ tool_calls: [call] = [], ...others }: CallFields): object {
  return call === undefined ? others : { ...others, function_call: call.function };
}

function legacyError(param: keyof LegacyToolFields, rule: string): InvalidRequestError {
  return new InvalidRequestError(`${param} ${rule}`, { param });
}
