// Checks the conversations that a program gives to `LLM`, and turns them into messages for the chat template.

import * as z from 'zod';
import { InvalidRequestError } from '../errors.ts';
import { chatMessageSchema, toChatMessages } from '../tokenizer/chat-messages.ts';
import type { ChatMessage } from '../tokenizer/tokenizer.ts';
import { zodMessage } from '../util/zod-message.ts';

export interface ContentPart {
  readonly type: 'text';
  readonly text: string;
}

/** A message as the protocol has it: several parts of text are joined by line ends. */
export interface ChatMessageInput {
  readonly role: string;
  readonly content?: string | readonly ContentPart[] | null | undefined;
  readonly name?: string | null | undefined;
  /** Of an assistant: the functions that it called. */
  readonly tool_calls?: readonly ToolCallInput[] | null | undefined;
  /** Of a tool: the call that it answers. */
  readonly tool_call_id?: string | null | undefined;
  /** Of an assistant: what it thought. */
  readonly reasoning?: string | null | undefined;
}

export interface ToolCallInput {
  readonly id?: string | null | undefined;
  readonly type?: 'function' | null | undefined;
  /** Arguments are the JSON text of an object. */
  readonly function: { readonly name: string; readonly arguments: string };
}

/** One list of messages, or a list of such lists. */
export type ConversationsInput = readonly ChatMessageInput[] | readonly (readonly ChatMessageInput[])[];

const schema = z.object({ messages: z.array(chatMessageSchema).min(1) });

/** @throws SvcError naming the message and what is wrong with it. */
export function readConversations(input: ConversationsInput): ChatMessage[][] {
  if (!isList(input)) return [readConversation(input)];
  return input.map((messages, index) => readConversation(messages, `messages[${index}]`));
}

/** @param path of the messages, for errors. */
export function readConversation(messages: readonly ChatMessageInput[], path = 'messages'): ChatMessage[] {
  const parsed = schema.safeParse({ messages });
  if (parsed.success) return toChatMessages(parsed.data.messages, path);
  const message = zodMessage(parsed.error, { messages }, 'messages');
  throw new InvalidRequestError(message.replace('messages', path), { param: 'messages' });
}

function isList(input: ConversationsInput): input is readonly (readonly ChatMessageInput[])[] {
  return Array.isArray(input) && (input.length === 0 || Array.isArray(input[0]));
}
