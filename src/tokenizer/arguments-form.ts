// Whether a chat template takes the arguments of a call as an object or as its JSON text: published ones differ, and say so
// nowhere. It is shown a call, and what it makes of the call tells.

import { parseExactJson } from '../util/exact-json.ts';
import { toJson } from './jinja/print.ts';
import { fromJson } from './jinja/values.ts';
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
  return calls.map(form === 'text' ? withTextArguments : withObjectArguments);
}

/** A text stays what the model wrote: the prompt begins as before. */
function withTextArguments(call: ToolCallMessage): object {
  const { arguments: given } = call.function;
  return withArguments(call, typeof given === 'string' ? given : toJson(fromJson(given)));
}

function withObjectArguments(call: ToolCallMessage): object {
  const { arguments: given } = call.function;
  return withArguments(call, typeof given === 'string' ? parseExactJson(given) : given);
}

function withArguments(call: ToolCallMessage, given: unknown): object {
  return { ...call, function: { ...call.function, arguments: given } };
}
