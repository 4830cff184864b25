// The messages of a chat request become the plain conversation that templates render; what this server cannot put
// into a prompt is refused by name. The chat route calls it.

import { InvalidRequestError, MalformedRequestError, NotAvailableError } from '../../errors.ts';
import type { ChatMessage } from '../../tokenizer/tokenizer.ts';
import { preview } from '../../util/preview.ts';
import type { RequestMessage } from '../protocol/chat-completion.ts';

/** They belong to tool use, to audio or to thinking, and would be lost on the way into the prompt. */
const UNAVAILABLE_FIELDS = [
  'tool_calls',
  'tool_call_id',
  'function_call',
  'audio',
  'reasoning',
  'reasoning_content',
  'refusal',
] as const;
const UNAVAILABLE_ROLES = new Set(['tool', 'function']);

/** @throws NotAvailableError or InvalidRequestError naming the message and what is wrong with it. */
export function toChatMessages(messages: readonly RequestMessage[]): ChatMessage[] {
  return messages.map((message, index) => {
    refuseUnavailable(message, index);
    const { role, name } = message;
    const content = textOf(message, `messages[${index}].content`);
    return typeof name === 'string' ? { role, content, name } : { role, content };
  });
}

function refuseUnavailable(message: RequestMessage, index: number): void {
  if (UNAVAILABLE_ROLES.has(message.role)) {
    throw new NotAvailableError(
      `messages[${index}].role is "${message.role}", and tool use is not available yet in this version of svc`,
      { param: 'messages' },
    );
  }
  for (const field of UNAVAILABLE_FIELDS) {
    const value = message[field];
    if (value === undefined || value === null || (Array.isArray(value) && value.length === 0)) continue;
    throw new NotAvailableError(
      `messages[${index}].${field} is not available yet in this version of svc; leave it out`,
      { param: 'messages' },
    );
  }
}

/** Parts of text stand in lines of their own. */
function textOf({ role, content }: RequestMessage, path: string): string {
  if (typeof content === 'string') return content;
  if (content === null || content === undefined) {
    // An assistant may have said nothing: it called a tool or refused, which has been looked at.
    if (role === 'assistant') return '';
    throw new MalformedRequestError(`${path} must be a string or an array of parts of type "text"`, {
      param: 'messages',
    });
  }
  return content.map((part, index) => textOfPart(part, `${path}[${index}]`)).join('\n');
}

function textOfPart(part: { readonly type: string; readonly text?: unknown }, path: string): string {
  if (part.type !== 'text') {
    throw new InvalidRequestError(
      `${path} is of type ${preview(part.type)}, and this model reads only text: send parts of type "text"`,
      { param: 'messages' },
    );
  }
  if (typeof part.text !== 'string') {
    throw new MalformedRequestError(`${path}.text must be a string`, { param: 'messages' });
  }
  return part.text;
}
