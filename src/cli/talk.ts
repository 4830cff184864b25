// svc chat and svc complete: a prompt on the terminal, answers as they come; the first remembers, the second does not.

import { createInterface } from 'node:readline';
import { type ApiClient, ApiError, type ChatTurn, firstModel, streamText } from './api-client.ts';

export interface TalkOptions extends ApiClient {
  /** Null is the first model of the server. */
  readonly modelName: string | null;
  /** One message to answer before the program ends; null asks for messages. */
  readonly quick: string | null;
}

type Answer = (message: string) => AsyncIterable<string>;

/** Keeps the whole conversation and sends it with every message. */
export async function chat(options: TalkOptions & { readonly systemPrompt: string | null }): Promise<void> {
  const model = options.modelName ?? (await firstModel(options));
  const turns: ChatTurn[] =
    options.systemPrompt === null ? [] : [{ role: 'system', content: options.systemPrompt }];
  await converse(options, model, 'message', async function* (message) {
    const messages: ChatTurn[] = [...turns, { role: 'user', content: message }];
    let answer = '';
    for await (const text of streamText(options, '/chat/completions', { model, messages })) {
      answer += text;
      yield text;
    }
    // Only a turn that was answered is part of the conversation.
    turns.push({ role: 'user', content: message }, { role: 'assistant', content: answer });
  });
}

/** Continues each prompt by itself. */
export async function complete(options: TalkOptions & { readonly maxTokens: number | null }): Promise<void> {
  const model = options.modelName ?? (await firstModel(options));
  const limit = options.maxTokens === null ? {} : { max_tokens: options.maxTokens };
  await converse(options, model, 'prompt', (prompt) =>
    streamText(options, '/completions', { model, prompt, ...limit }),
  );
}

/** Reads lines until the input ends; an error of the server is shown and the next line asked for. */
async function converse(options: TalkOptions, model: string, what: string, answer: Answer): Promise<void> {
  if (options.quick !== null) return print(answer(options.quick));
  process.stderr.write(`Using model: ${model}\nPlease enter a ${what}; Ctrl-D ends.\n`);
  const lines = createInterface({ input: process.stdin, output: process.stderr, prompt: '> ' });
  lines.prompt();
  for await (const line of lines) {
    if (line.trim() !== '') await print(answer(line)).catch(showError);
    lines.prompt();
  }
}

async function print(texts: AsyncIterable<string>): Promise<void> {
  for await (const text of texts) process.stdout.write(text);
  process.stdout.write('\n');
}

function showError(error: unknown): void {
  if (!(error instanceof ApiError)) throw error;
  process.stderr.write(`error: ${error.message}\n`);
}
