// Picks the command, prints errors, sets the exit code. What a command needs is loaded by it alone.

import { Command, CommanderError, Option } from 'commander';
import { type FindForeign, type ForeignFlag, findForeign } from '../config/foreign-options.ts';
import { type OptionKey, SERVE_OPTIONS } from '../config/options.ts';
import { PROXY_OPTIONS } from '../config/proxy-options.ts';
import type { EngineThread } from '../engine/spawn-engine.ts';
import { ConfigError, EngineDeadError, NotAvailableError, SvcError } from '../errors.ts';
import { version } from '../util/version.ts';
import { addBatchCommand } from './batch-command.ts';
import { findForeignOfBench } from './bench/serve/foreign-options.ts';
import { addBenchCommands } from './bench-commands.ts';
import { addClientCommands } from './client-commands.ts';
import { engineFlags } from './engine-flags.ts';
import { endOnSignals, exit } from './exit.ts';
import { addOptions, flagOptions, type SplitArguments, splitArguments, withModel } from './flags.ts';
import { takeForeignFlags } from './foreign-flags.ts';
import { addModelCommands } from './model-commands.ts';

/** The user's words were wrong: nothing was started. */
const USAGE_ERROR = 2;

let hasStarted = false;

/**
 * Runs `svc ...argv`; prints what went wrong and sets the exit code.
 * @param engineThread for `svc serve`, which starts one where it is left out.
 */
export async function runProgram(argv: readonly string[], engineThread?: EngineThread): Promise<void> {
  // A server that has lost its log goes on.
  process.stderr.on('error', () => {});
  process.stdout.on('error', endWithoutOutput);
  if (argv[0] !== 'serve' && argv[0] !== 'proxy') endOnSignals();
  try {
    // A short flag of one command means something else to another.
    const hasEngine = takesEngineOptions(argv);
    const { argv: own, foreign } = takeForeignFlags(argv, finderOf(argv));
    const serving = splitArguments(SERVE_OPTIONS, hasEngine ? own : []);
    const others = argv[0] === 'proxy' ? splitArguments(PROXY_OPTIONS, argv).args : own;
    const args = hasEngine ? serving.args : others;
    const svc = program(serving, foreign, engineThread);
    if (args.length === 0) svc.outputHelp();
    else await svc.parseAsync(args, { from: 'user' });
  } catch (error) {
    const code = report(error);
    process.exitCode = code;
    // It may have left a thread that never ends, and node would wait for it.
    if (error instanceof EngineDeadError) await exit(code, await consoleLog());
  }
}

async function consoleLog() {
  const { createLogger } = await import('../observability/log.ts');
  return createLogger('error');
}

function program(
  serving: SplitArguments<OptionKey>,
  foreign: readonly ForeignFlag[],
  engineThread: EngineThread | undefined,
): Command {
  const svc = new Command('svc')
    .description('Serves language models over the protocol of the OpenAI API')
    .version(version(), '-v, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .configureOutput({ outputError: (text, write) => write(text) })
    // The longest options leave less than the 40 columns below which nothing would be wrapped.
    .configureHelp({ minWidthToWrap: 30 })
    .exitOverride();
  const serve = svc
    .command('serve')
    .description('serve one model over HTTP')
    .argument(
      '[model]',
      'folder or GGUF file of a model, or its name on the hub; without it, the small chat model that svc brings along',
    )
    .addHelpOption(new Option('-h, --help', 'print this help').helpGroup('General:'))
    .addHelpText('after', SERVE_NOTES)
    .action(async (model: string | undefined, opts: Record<string, unknown>) => {
      const flags = withModel(flagOptions(SERVE_OPTIONS, opts, serving.dotted), model);
      const { readConfig, serve: start } = await import('./serve.ts');
      const config = await readConfig(flags, foreign);
      hasStarted = true;
      await start(config, engineThread);
    });
  addOptions(SERVE_OPTIONS, serve);
  addProxy(svc);
  addClientCommands(svc);
  addModelCommands(svc);
  const readEngineFlags = engineFlags(serving, foreign);
  addBatchCommand(svc, readEngineFlags);
  addBenchCommands(svc, readEngineFlags, foreign);
  return svc;
}

function addProxy(svc: Command): void {
  const proxy = svc
    .command('proxy')
    .description('join prefill and decode instances behind one address')
    .addHelpOption(new Option('-h, --help', 'print this help').helpGroup('General:'))
    .addHelpText('after', PROXY_NOTES)
    .action(async (opts: Record<string, unknown>) => {
      const { readInstanceKey, readProxyConfig, runProxy } = await import('./proxy.ts');
      const config = await readProxyConfig(flagOptions(PROXY_OPTIONS, opts));
      const instanceKey = readInstanceKey();
      hasStarted = true;
      await runProxy(config, instanceKey);
    });
  addOptions(PROXY_OPTIONS, proxy);
}

const SERVE_NOTES = `
Numbers may be written short: 1k is 1000, 1K is 1024. Dashes and underscores in
names are the same. Flags win over environment variables, these over the config
file, this over the defaults.

Examples:
  svc serve ./Qwen2.5-0.5B-Instruct
  svc serve Qwen/Qwen2.5-0.5B-Instruct --port 9000 --api-key one-key another
  svc serve --config svc.yaml`;

const PROXY_NOTES = `
Instances are started with svc serve --kv-transfer-config and register
themselves. Behind an API key of their own, the proxy calls them with
OPENAI_API_KEY.

Examples:
  svc proxy
  svc proxy --host 0.0.0.0 --policy prefix_aware --api-key one-key another`;

function takesEngineOptions([command, measurement]: readonly string[]): boolean {
  if (command === 'bench') return measurement === 'latency' || measurement === 'throughput';
  return command === 'serve' || command === 'run-batch';
}

/** The options of other servers that are known to the command. */
function finderOf(argv: readonly string[]): FindForeign {
  if (takesEngineOptions(argv)) return findForeign;
  return argv[0] === 'bench' && argv[1] === 'serve' ? findForeignOfBench : () => null;
}

/** Whoever reads our output may leave, and nothing is left to do; a disk that is full must not pass for an end that was reached. */
function endWithoutOutput(error: NodeJS.ErrnoException): never {
  if (error.code === 'EPIPE') process.exit(0);
  process.stderr.write(`error: stdout cannot be written: ${error.message}\n`);
  process.exit(1);
}

/** Prints an error that the user can fix as one line, any other with its stack. */
function report(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : USAGE_ERROR;
  if (error instanceof SvcError) {
    process.stderr.write(`error: ${error.message}\n`);
    // What an option needs may be known only when the hardware was asked.
    const isUsage = error instanceof NotAvailableError || (error instanceof ConfigError && !hasStarted);
    return isUsage ? USAGE_ERROR : 1;
  }
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  process.stderr.write(`error: ${text}\n`);
  return 1;
}
