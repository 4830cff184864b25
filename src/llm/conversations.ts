// Checks the conversations that a program gives to `LLM`, and turns them into messages for the chat template.

import * as z from 'zod';
import { InvalidRequestError } from '../errors.ts';
import { type Conversation, chatMessageSchema, toConversation } from '../tokenizer/chat-messages.ts';
import { zodMessage } from '../util/zod-message.ts';

export type ContentPart = TextPartInput | ImagePartInput;

export interface TextPartInput {
  readonly type: 'text';
  readonly text: string;
}

/** An image: a data: URL, its address on the web, or a file of this machine as a file: URL. */
export interface ImagePartInput {
  readonly type: 'image_url';
  readonly image_url: string | { readonly url: string };
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

/**
 * @param maxImages of each conversation; null where the model reads only text.
 * @throws SvcError naming the message and what is wrong with it.
 */
export function readConversations(input: ConversationsInput, maxImages: number | null): Conversation[] {
  if (!isList(input)) return [readConversation(input, maxImages)];
  return input.map((messages, index) => readConversation(messages, maxImages, `messages[${index}]`));
}

/** @param path of the messages, for errors. */
export function readConversation(
  messages: readonly ChatMessageInput[],
  maxImages: number | null,
  path = 'messages',
): Conversation {
  const parsed = schema.safeParse({ messages });
  if (parsed.success) return toConversation(parsed.data.messages, { maxImages, path });
  const message = zodMessage(parsed.error, { messages }, 'messages');
  throw new InvalidRequestError(message.replace('messages', path), { param: 'messages' });
}

function isList(input: ConversationsInput): input is readonly (readonly ChatMessageInput[])[] {
  return Array.isArray(input) && (input.length === 0 || Array.isArray(input[0]));
}
