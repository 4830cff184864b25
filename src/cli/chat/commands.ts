// What begins with a slash is for svc chat itself and not for the model.

import { didYouMean } from '../../config/suggest.ts';
import { InvalidRequestError } from '../../errors.ts';
import { attachedImage } from './attached-image.ts';
import type { ChatSession } from './chat-session.ts';
import { DEFAULT } from './parameters.ts';
import { loadConversation, saveConversation } from './saved-conversation.ts';

interface Command {
  readonly name: string;
  readonly argument?: string;
  readonly help: string;
  /** Left out, it leaves. @param rest the text after the name. */
  run?(rest: string, session: ChatSession): void | Promise<void>;
}

/** The same with another name, as other chats have it. */
const ALIASES: Readonly<Record<string, string>> = { '/?': '/help', '/bye': '/exit', '/quit': '/exit' };

const COMMANDS: readonly Command[] = [
  {
    name: '/help',
    help: 'show this help',
    run: (_, { output }) => output.note(helpText()),
  },
  {
    name: '/clear',
    help: 'forget what was said; system prompt and parameters stay',
    run: (_, { conversation, output }) => {
      conversation.clear();
      output.note('(a new conversation)');
    },
  },
  {
    name: '/system',
    argument: '[text]',
    help: `set the system prompt, or show it; /system ${DEFAULT} takes it away`,
    run: setSystem,
  },
  {
    name: '/set',
    argument: '[parameter] [value]',
    help: `set a sampling parameter, or show them; the value ${DEFAULT} unsets it`,
    run: setParameter,
  },
  {
    name: '/image',
    argument: '<file or URL>',
    help: 'send an image along with the next message, to a model that sees',
    run: async (rest, session) => {
      session.attach(await attachedImage(rest));
      session.output.note(`(${rest} goes with the next message)`);
    },
  },
  {
    name: '/save',
    argument: '<file>',
    help: 'write the conversation into a file',
    run: (rest, session) => session.output.note(saveConversation(filePath(rest), session)),
  },
  {
    name: '/load',
    argument: '<file>',
    help: 'go on with a conversation that was saved',
    run: (rest, session) => session.output.note(loadConversation(filePath(rest), session)),
  },
  { name: '/exit', help: 'leave' },
];

const KEYS = [
  ['"""', 'begins a message of several lines, and ends it'],
  ['\\', 'at the end of a line: the message goes on in the next'],
  ['Alt-Enter', 'a line break; a pasted text keeps its own'],
  ['Up, Down', 'what was typed before, also in earlier runs'],
  ['Ctrl-C', 'stops an answer, which stays as far as it came; empties the line'],
  ['Ctrl-D', 'leave'],
] as const;

export const commandNames: readonly string[] = COMMANDS.map(({ name }) => name);

export function isCommand(message: string): boolean {
  return message.startsWith('/');
}

/** @returns false to leave. @throws InvalidRequestError where there is no such command or it cannot be done. */
export async function runCommand(message: string, session: ChatSession): Promise<boolean> {
  const [, typed = '', rest = ''] = /^(\S+)\s*(.*)$/s.exec(message) ?? [];
  const name = ALIASES[typed] ?? typed;
  const command = COMMANDS.find((known) => known.name === name);
  if (command === undefined) {
    const guess = didYouMean(typed, commandNames) || '; /help shows all';
    throw new InvalidRequestError(
      `there is no command ${typed}${guess} (a space before the slash sends it as a message)`,
    );
  }
  await command.run?.(rest.trim(), session);
  return command.run !== undefined;
}

function setSystem(text: string, { conversation, output }: ChatSession): void {
  if (text !== '') conversation.system = text === DEFAULT ? null : text;
  const { system } = conversation;
  output.note(system === null ? '(no system prompt)' : `system prompt: ${system}`);
}

function setParameter(rest: string, { parameters, output }: ChatSession): void {
  const [, name = '', value = ''] = /^(\S*)\s*(.*)$/s.exec(rest) ?? [];
  if (value !== '') parameters.set(name, value);
  const lines = parameters.list();
  const own = lines.filter((line) => line.startsWith(`${name} `));
  output.note((own.length > 0 ? own : lines).join('\n'));
}

function filePath(rest: string): string {
  if (rest === '') throw new InvalidRequestError('a file name is missing: /save <file>, /load <file>');
  return rest;
}

function helpText(): string {
  const commands = COMMANDS.map(({ name, argument = '', help }) => [`${name} ${argument}`.trim(), help]);
  const rows = [...commands, ...KEYS];
  const width = Math.max(...rows.map(([left = '']) => left.length));
  return rows.map(([left = '', right = '']) => `${left.padEnd(width)}  ${right}`).join('\n');
}
