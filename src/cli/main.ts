#!/usr/bin/env node
// The program svc: picks the command, prints errors, sets the exit code. What a command needs is loaded by it alone.

import { Command, CommanderError, Option } from 'commander';
import { ConfigError, NotAvailableError, SvcError } from '../errors.ts';
import { addClientCommands } from './client-commands.ts';
import { addOptions, flagOptions, splitArguments } from './flags.ts';
import { version } from './version.ts';

/** The user's words were wrong: nothing was started. */
const USAGE_ERROR = 2;

const { args, dotted } = splitArguments(process.argv.slice(2));
let hasStarted = false;

function program(): Command {
  const svc = new Command('svc')
    .description('Serves language models over the protocol of the OpenAI API')
    .version(version(), '-v, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .configureOutput({ outputError: (text, write) => write(text) })
    .exitOverride();
  const serve = svc
    .command('serve')
    .description('serve one model over HTTP')
    .argument(
      '[model]',
      'folder of a model, or its name on the hub; without it, the small chat model that svc brings along',
    )
    .addHelpOption(new Option('-h, --help', 'print this help').helpGroup('General:'))
    .addHelpText('after', SERVE_NOTES)
    .action(async (model: string | undefined, opts: Record<string, unknown>) => {
      const flags = flagOptions(opts, dotted, model);
      const { readConfig, serve: start } = await import('./serve.ts');
      const config = await readConfig(flags);
      hasStarted = true;
      await start(config);
    });
  addOptions(serve);
  addClientCommands(svc);
  return svc;
}

const SERVE_NOTES = `
Numbers may be written short: 1k is 1000, 1K is 1024. Dashes and underscores in
names are the same. Flags win over environment variables, these over the config
file, this over the defaults.

Examples:
  svc serve ./Qwen2.5-0.5B-Instruct
  svc serve Qwen/Qwen2.5-0.5B-Instruct --port 9000 --api-key one-key another
  svc serve --config svc.yaml`;

// Whoever reads our output may leave: a server that has lost its log goes on, a help page has nothing left to do.
process.stderr.on('error', () => {});
process.stdout.on('error', () => process.exit(0));

try {
  const svc = program();
  if (args.length === 0) svc.outputHelp();
  else await svc.parseAsync(args, { from: 'user' });
} catch (error) {
  process.exitCode = report(error);
}

/** Prints what a person can mend as one line, anything else with its stack. */
function report(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : USAGE_ERROR;
  if (error instanceof SvcError) {
    process.stderr.write(`error: ${error.message}\n`);
    const isUsage = error instanceof ConfigError || error instanceof NotAvailableError;
    return isUsage && !hasStarted ? USAGE_ERROR : 1;
  }
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  process.stderr.write(`error: ${text}\n`);
  return 1;
}
