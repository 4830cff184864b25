// Calls of custom tools in the form that they have in chat completions.

import type { CallFields } from './functions.ts';

export function withCustomCalls({ tool_calls: calls, ...others }: CallFields): object {
  return calls === undefined ? others : { ...others, tool_calls: calls.map(inOwnForm) };
}

function inOwnForm(call: NonNullable<CallFields['tool_calls']>[number]): object {
  const { isCustom, function: called, type, ...others } = call;
  if (!isCustom) return call;
  const { arguments: input, ...named } = called;
  return { ...others, ...(type !== undefined && { type: 'custom' }), custom: { ...named, input } };
}
