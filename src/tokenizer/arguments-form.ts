// Whether a chat template takes the arguments of a call as an object or as its JSON text: published ones differ, and say so
// nowhere. It is shown a call, and what it makes of the call tells.

import { InvalidRequestError } from '../errors.ts';
import type { Variables } from './render-queue.ts';
import type { ToolCallMessage } from './tokenizer.ts';

export type ArgumentsForm = 'object' | 'text';

const CALL: ToolCallMessage = {
  // Some templates insist on ids of nine characters.
  id: 'probe0000',
  type: 'function',
  function: { name: 'probe', arguments: { needle: 'hay' } },
};
/** An object that was printed in place of its JSON. */
const AS_PYTHON = "{'needle': 'hay'}";

export async function argumentsForm(
  render: (variables: Variables) => Promise<string>,
): Promise<ArgumentsForm> {
  const asObject = await renderCall(render, CALL);
  if (asObject?.includes('hay') && !asObject.includes(AS_PYTHON)) return 'object';
  const asText = await renderCall(render, withTextArguments(CALL));
  return asText?.includes('hay') ? 'text' : 'object';
}

export function withTextArguments(call: ToolCallMessage): object {
  return { ...call, function: { ...call.function, arguments: JSON.stringify(call.function.arguments) } };
}

/** Null where the template refuses it. */
async function renderCall(
  render: (variables: Variables) => Promise<string>,
  call: object,
): Promise<string | null> {
  const messages = [
    { role: 'user', content: 'Hello' },
    { role: 'assistant', content: '', tool_calls: [call] },
  ];
  try {
    return await render({ messages, add_generation_prompt: false });
  } catch (error) {
    if (error instanceof InvalidRequestError) return null;
    throw error;
  }
}
