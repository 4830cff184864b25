// How a chat template takes a call: its arguments as an object or as JSON text, and a message that says nothing besides with an
// empty content or with none. Published ones differ, and say so nowhere. Each is shown a call, and what it makes of the call tells.

import { parseExactJson } from '../util/exact-json.ts';
import type { TryTemplate } from './content-format.ts';
import { toJson } from './jinja/print.ts';
import { fromJson } from './jinja/values.ts';
import type { ChatMessage, ToolCallMessage } from './tokenizer.ts';

export interface CallForm {
  readonly arguments: 'object' | 'text';
  /** Whether it leaves calls out that have a content beside them, were it empty. */
  readonly isWithoutContent: boolean;
}

const CALL: ToolCallMessage = {
  // Some templates insist on ids of nine characters.
  id: 'probe0000',
  type: 'function',
  function: { name: 'probe', arguments: { needle: 'hay' } },
};
/** An object that was printed in place of its JSON. */
const AS_PYTHON = "{'needle': 'hay'}";

/** @param render writes a conversation; null where the template refuses it. */
export function callForm(render: TryTemplate): CallForm {
  for (const content of ['', null] as const) {
    const written = argumentsForm((call) =>
      render([
        { role: 'user', content: 'Hello' },
        { role: 'assistant', content, tool_calls: [call] },
      ]),
    );
    if (written !== null) return { arguments: written, isWithoutContent: content === null };
  }
  return { arguments: 'object', isWithoutContent: false };
}

/** Null where it writes arguments of neither form. */
function argumentsForm(rendered: (call: object) => string | null): CallForm['arguments'] | null {
  const asObject = rendered(CALL);
  if (asObject?.includes('hay') && !asObject.includes(AS_PYTHON)) return 'object';
  if (rendered(withTextArguments(CALL))?.includes('hay')) return 'text';
  return asObject?.includes('hay') ? 'object' : null;
}

/** The calls of a message with their arguments in that form. */
export function inCallForm(calls: NonNullable<ChatMessage['tool_calls']>, form: CallForm): readonly object[] {
  return calls.map(form.arguments === 'text' ? withTextArguments : withObjectArguments);
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
