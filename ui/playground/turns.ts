// Whose turn it is in a conversation: calls of tools are answered one after the other, before anybody else speaks.

import { type Message, message, type ToolCall } from './message.ts';

/** The first call that has no answer yet. */
export function openCall(messages: readonly Message[]): ToolCall | undefined {
  const last = messages.findLastIndex(({ role }) => role === 'assistant');
  const answered = messages.slice(last + 1).map(({ toolCallId }) => toolCallId);
  return messages[last]?.toolCalls.find(({ id }) => !answered.includes(id));
}

/** The conversation with what the user wrote: an answer to a call, or a message, which may have images. */
export function withText(
  messages: readonly Message[],
  text: string,
  images: readonly string[] = [],
): readonly Message[] {
  const call = openCall(messages);
  const next = call === undefined ? { ...message('user', text), images } : message('tool', text, call.id);
  return [...messages, next];
}

/** Up to what the model answered last. */
export function beforeAnswer(messages: readonly Message[]): readonly Message[] {
  return messages.slice(0, messages.findLastIndex(({ role }) => role !== 'assistant') + 1);
}
