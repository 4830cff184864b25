// svc chat: messages go to the model, commands to the chat itself.

import { ChatSession } from './chat-session.ts';
import { commandNames, isCommand, runCommand } from './commands.ts';
import { connect, type Target } from './connect.ts';
import { Conversation } from './conversation.ts';
import { converse } from './converse.ts';
import { Output } from './output.ts';

export interface ChatOptions extends Target {
  readonly systemPrompt: string | null;
  /** One message to answer before the program ends; null asks for messages. */
  readonly quick: string | null;
}

/** @returns the exit code. */
export async function chat(options: ChatOptions): Promise<number> {
  const output = new Output();
  const connection = await connect(options, output);
  const session = new ChatSession(connection, new Conversation(options.systemPrompt), output);
  try {
    if (options.quick !== null) {
      await session.answer(options.quick, new AbortController().signal);
      return 0;
    }
    return await converse(
      {
        greeting: `Using model: ${connection.model}\nPlease enter a message; /help tells more, Ctrl-D ends.`,
        historyName: 'chat-history',
        completions: commandNames,
        respond: async (message, signal) => {
          if (isCommand(message)) return runCommand(message, session);
          await session.answer(message, signal);
          return true;
        },
      },
      output,
    );
  } finally {
    await connection.close();
  }
}
