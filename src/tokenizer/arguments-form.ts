// Whether a chat template takes the arguments of a call as an object or as its JSON text: published ones differ, and say so
// nowhere. It is shown a call, and what it makes of the call tells.

import type { ChatMessage, ToolCallMessage } from './tokenizer.ts';

export type ArgumentsForm = 'object' | 'text';

const CALL: ToolCallMessage = {
  // Some templates insist on ids of nine characters.
  id: 'probe0000',
  type: 'function',
  function: { name: 'probe', arguments: { needle: 'hay' } },
};
/** An object that was printed in place of its JSON. */
const AS_PYTHON = "{'needle': 'hay'}";

/** @param render writes a conversation; null where the template refuses it. */
export function argumentsForm(render: (messages: readonly object[]) => string | null): ArgumentsForm {
  const rendered = (call: object): string | null =>
    render([
      { role: 'user', content: 'Hello' },
      { role: 'assistant', content: '', tool_calls: [call] },
    ]);
  const asObject = rendered(CALL);
  if (asObject?.includes('hay') && !asObject.includes(AS_PYTHON)) return 'object';
  return rendered(withTextArguments(CALL))?.includes('hay') ? 'text' : 'object';
}

/** The calls of a message with their arguments in that form. */
export function inArgumentsForm(
  calls: NonNullable<ChatMessage['tool_calls']>,
  form: ArgumentsForm,
): readonly object[] {
  return form === 'text' ? calls.map(withTextArguments) : calls;
}

function withTextArguments(call: ToolCallMessage): object {
  return { ...call, function: { ...call.function, arguments: JSON.stringify(call.function.arguments) } };
}
