// svc complete: continues each text by itself.

import { streamAnswer } from '../api-client.ts';
import { connect, type Target } from './connect.ts';
import { converse, writeAnswer } from './converse.ts';
import { Output } from './output.ts';

interface CompleteOptions extends Target {
  /** Null is the server's own limit. */
  readonly maxTokens: number | null;
  /** One text to continue before the program ends; null asks for texts. */
  readonly quick: string | null;
}

/** @returns the exit code. */
export async function complete(options: CompleteOptions): Promise<number> {
  const output = new Output();
  const { client, model, close } = await connect(options, output);
  const limit = options.maxTokens === null ? {} : { max_tokens: options.maxTokens };
  const respond = async (prompt: string, signal: AbortSignal): Promise<boolean> => {
    const parts = streamAnswer(client, '/completions', { model, prompt, ...limit }, signal);
    await writeAnswer(parts, output, signal);
    return true;
  };
  try {
    if (options.quick !== null) {
      await respond(options.quick, new AbortController().signal);
      return 0;
    }
    const greeting = `Using model: ${model}\nPlease enter a prompt; Ctrl-C stops an answer, Ctrl-D ends.`;
    return await converse({ greeting, historyName: 'complete-history', completions: [], respond }, output);
  } finally {
    await close();
  }
}
