// The messages that a caller gives, over HTTP or in a program, become the plain conversation that templates render;
// what cannot be put into a prompt is refused by name.

import { z } from 'zod';
import { InvalidRequestError, MalformedRequestError, NotAvailableError } from '../errors.ts';
import { listOf } from '../util/bounded-schemas.ts';
import { preview } from '../util/preview.ts';
import type { ChatMessage, TextPart } from './tokenizer.ts';

/** Of one message. */
const MAX_PARTS = 1024;
/** Characters. A role is repeated in the answer. */
const MAX_ROLE = 64;
const MAX_NAME = 256;

const contentPart = z.looseObject({ type: z.string() });

export const chatMessageSchema = z.looseObject({
  role: z.string().min(1, 'must not be empty').max(MAX_ROLE),
  /** Checked in detail when the messages are turned into a prompt. */
  content: z.union([z.string(), listOf(contentPart, MAX_PARTS)]).nullish(),
  name: z.string().max(MAX_NAME).nullish(),
});

type RequestMessage = z.output<typeof chatMessageSchema>;

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

/**
 * @param path of the list, for errors.
 * @throws NotAvailableError or InvalidRequestError naming the message and the reason.
 */
export function toChatMessages(messages: readonly RequestMessage[], path = 'messages'): ChatMessage[] {
  return messages.map((message, index) => {
    refuseUnavailable(message, `${path}[${index}]`);
    const { role, name } = message;
    const content = contentOf(message, `${path}[${index}].content`);
    return typeof name === 'string' ? { role, content, name } : { role, content };
  });
}

function refuseUnavailable(message: RequestMessage, path: string): void {
  if (UNAVAILABLE_ROLES.has(message.role)) {
    throw new NotAvailableError(
      `${path}.role is "${message.role}", and tool use is not available yet in this version of svc`,
      { param: 'messages' },
    );
  }
  for (const field of UNAVAILABLE_FIELDS) {
    const value = message[field];
    if (value === undefined || value === null || (Array.isArray(value) && value.length === 0)) continue;
    throw new NotAvailableError(
      `${path}.${field} is not available yet in this version of svc; leave it out`,
      { param: 'messages' },
    );
  }
}

function contentOf({ role, content }: RequestMessage, path: string): ChatMessage['content'] {
  if (typeof content === 'string') return content;
  if (content === null || content === undefined) {
    // An assistant may have said nothing: it called a tool or refused, which has been looked at.
    if (role === 'assistant') return '';
    throw new MalformedRequestError(`${path} must be a string or an array of parts of type "text"`, {
      param: 'messages',
    });
  }
  return content.map((part, index) => textPart(part, `${path}[${index}]`));
}

function textPart(part: { readonly type: string; readonly text?: unknown }, path: string): TextPart {
  if (part.type !== 'text') {
    throw new InvalidRequestError(
      `${path} is of type ${preview(part.type)}, and this model reads only text: send parts of type "text"`,
      { param: 'messages' },
    );
  }
  if (typeof part.text !== 'string') {
    throw new MalformedRequestError(`${path}.text must be a string`, { param: 'messages' });
  }
  return { type: 'text', text: part.text };
}

/** Variables of a template that are set from the request itself. */
const RESERVED_VARIABLES = ['messages', 'add_generation_prompt', 'tools', 'documents'];

/** The first of the extra `variables` for a template that would replace a field of the request; null without one. */
export function reservedVariable(variables: object): string | null {
  return RESERVED_VARIABLES.find((name) => Object.hasOwn(variables, name)) ?? null;
}
