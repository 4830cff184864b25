// The flags of svc chat and svc complete, the commands that talk to a running server.

import { type Command, InvalidArgumentError, Option } from 'commander';
import type { TalkOptions } from './talk.ts';

interface ClientFlags {
  readonly url: string;
  readonly apiKey: string;
  readonly modelName?: string;
  readonly quick?: string;
}

export function addClientCommands(svc: Command): void {
  addClient(svc, 'chat', 'talk to a model that a server serves')
    .option('--system-prompt <text>', 'instructions at the start of the conversation')
    .action(async (flags: ClientFlags & { readonly systemPrompt?: string }) => {
      const { chat } = await import('./talk.ts');
      await chat({ ...talkOptions(flags), systemPrompt: flags.systemPrompt ?? null });
    });
  addClient(svc, 'complete', 'let a model that a server serves continue texts')
    .option('--max-tokens <n>', "longest answer in tokens (default: the server's)", positiveInteger)
    .action(async (flags: ClientFlags & { readonly maxTokens?: number }) => {
      const { complete } = await import('./talk.ts');
      await complete({ ...talkOptions(flags), maxTokens: flags.maxTokens ?? null });
    });
}

function addClient(svc: Command, name: string, description: string): Command {
  return svc
    .command(name)
    .description(description)
    .option('--url <url>', 'address of the server, with /v1', 'http://localhost:8000/v1')
    .option('--model-name <name>', 'model to ask (default: the first that the server has)')
    .addOption(new Option('--api-key <key>', 'key for the server').env('OPENAI_API_KEY').default('EMPTY'))
    .option('-q, --quick <text>', 'answer this one text and end');
}

function talkOptions({ url, apiKey, modelName, quick }: ClientFlags): TalkOptions {
  return { url, apiKey, modelName: modelName ?? null, quick: quick ?? null };
}

function positiveInteger(text: string): number {
  if (/^[1-9]\d*$/.test(text)) return Number(text);
  throw new InvalidArgumentError('expected a whole number of at least 1');
}
