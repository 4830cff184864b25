// A conversation as a file: the messages in the protocol's form, so that other programs can read them too.

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import * as z from 'zod';
import { InvalidRequestError, messageOf } from '../../errors.ts';
import type { ChatSession } from './chat-session.ts';
import type { Exchange } from './conversation.ts';
import { typedPath } from './typed-path.ts';

const part = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text'), text: z.string() }),
  z.object({ type: z.literal('image_url'), image_url: z.object({ url: z.string() }) }),
]);

const turn = z.discriminatedUnion('role', [
  z.object({ role: z.enum(['system', 'assistant']), content: z.string() }),
  z.object({ role: z.literal('user'), content: z.union([z.string(), z.array(part)]) }),
]);

const savedConversation = z.object({
  model: z.string().optional(),
  parameters: z.record(z.string(), z.unknown()).default({}),
  messages: z.array(turn),
});

type Saved = z.output<typeof savedConversation>;

/** @returns what to tell. @throws InvalidRequestError where the file cannot be written, or is something else. */
export function saveConversation(
  path: string,
  { connection, conversation, parameters }: ChatSession,
): string {
  const file = typedPath(path);
  // A slip of the finger must not cost a file.
  if (existsSync(file)) read(file);
  const messages = conversation.transcript();
  const saved = { model: connection.model, parameters: parameters.fields, messages };
  attempt(`${file} cannot be written`, () => writeFileSync(file, `${JSON.stringify(saved, null, 2)}\n`));
  return `(${messages.length} messages are in ${file})`;
}

/** @returns what to tell. @throws InvalidRequestError where the file is no conversation. */
export function loadConversation(path: string, { conversation, parameters }: ChatSession): string {
  const file = typedPath(path);
  const { messages, parameters: fields } = read(file);
  const [first, ...others] = messages;
  const system = first?.role === 'system' ? first.content : null;
  const exchanges = toExchanges(system === null ? messages : others, file);
  parameters.replace(fields);
  conversation.restore(system, exchanges);
  return `(going on behind ${messages.length} messages of ${file})`;
}

function read(file: string): Saved {
  const text = attempt(`${file} cannot be read`, () => readFileSync(file, 'utf8'));
  try {
    return savedConversation.parse(JSON.parse(text));
  } catch (cause) {
    throw new InvalidRequestError(`${file} is no saved conversation: give another name`, { cause });
  }
}

/** A person and the model take turns. */
function toExchanges(messages: Saved['messages'], file: string): Exchange[] {
  const exchanges: Exchange[] = [];
  for (let i = 0; i < messages.length; i += 2) {
    const [question, answer] = [messages[i], messages[i + 1]];
    if (question?.role !== 'user' || answer?.role !== 'assistant') {
      throw new InvalidRequestError(
        `${file}: messages must be of user and assistant in turn, which number ${i + 1} is not`,
      );
    }
    exchanges.push({ user: question.content, assistant: answer.content });
  }
  return exchanges;
}

/** Not every error of the system names the file. */
function attempt<T>(fault: string, work: () => T): T {
  try {
    return work();
  } catch (cause) {
    throw new InvalidRequestError(`${fault}: ${messageOf(cause)}`, { cause });
  }
}
