// The flags of svc chat and svc complete, the commands that talk to a model.

import type { Command } from 'commander';
import { apiKeyOption } from './api-key-option.ts';
import type { Target } from './chat/connect.ts';
import { httpUrl, wholeNumber } from './flags.ts';

interface ClientFlags {
  readonly url?: string;
  readonly apiKey: string;
  readonly modelName?: string;
  readonly quick?: string;
}

export function addClientCommands(svc: Command): void {
  addClient(svc, 'chat', 'talk to a model')
    .option('--system-prompt <text>', 'instructions at the start of the conversation')
    .action(async (model: string | undefined, flags: ClientFlags & { readonly systemPrompt?: string }) => {
      const { chat } = await import('./chat/chat.ts');
      const { systemPrompt = null, quick = null } = flags;
      process.exitCode = await chat({ ...target(model, flags), quick, systemPrompt });
    });
  addClient(svc, 'complete', 'let a model continue texts')
    .option('--max-tokens <n>', "longest answer in tokens (default: the server's)", wholeNumber(1))
    .action(async (model: string | undefined, flags: ClientFlags & { readonly maxTokens?: number }) => {
      const { complete } = await import('./chat/complete.ts');
      const { maxTokens = null, quick = null } = flags;
      process.exitCode = await complete({ ...target(model, flags), quick, maxTokens });
    });
}

function addClient(svc: Command, name: string, description: string): Command {
  return svc
    .command(name)
    .description(description)
    .argument('[model]', 'run this model here: its folder, its GGUF file, or its name on the hub')
    .option('--url <url>', 'ask the server at this address, with /v1', httpUrl('http://localhost:8000/v1'))
    .option('--model-name <name>', 'model of the server (default: the first that it has)')
    .addOption(apiKeyOption())
    .option('-q, --quick <text>', 'answer this one text and end')
    .addHelpText('after', CLIENT_NOTES);
}

const CLIENT_NOTES = `
Without model and --url, the server at http://localhost:8000/v1 is asked; where
there is none, the small model that svc brings along runs here.`;

function target(model: string | undefined, { url, apiKey, modelName }: ClientFlags): Target {
  return { url: url ?? null, model: model ?? null, modelName: modelName ?? null, apiKey };
}
