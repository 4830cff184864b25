// The flags of svc bench serve.

import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Goodput } from './bench/serve/serving-metrics.ts';
import { DATASETS, type DatasetName } from './bench/serve/workload.ts';
import { wholeNumber } from './flags.ts';

interface ServeFlags {
  readonly url: string;
  readonly apiKey: string;
  readonly model?: string;
  readonly backend: 'openai' | 'openai-chat';
  readonly datasetName: DatasetName;
  readonly datasetPath?: string;
  readonly numPrompts?: number;
  readonly randomInputLen: number;
  readonly outputLen?: number;
  readonly seed: number;
  readonly requestRate: number | null;
  readonly burstiness: number;
  readonly maxConcurrency?: number;
  readonly ignoreEos?: true;
  readonly temperature?: number;
  readonly goodput?: Goodput;
  readonly numWarmups: number;
  readonly outputJson?: string;
  readonly outputHtml?: string;
}

const GOODPUT_NAMES = ['ttft', 'tpot', 'e2el'];

export function addBenchServe(bench: Command): void {
  bench
    .command('serve')
    .description('measure a running server as its clients see it')
    .option('--url <url>', 'address of the server, with /v1', 'http://localhost:8000/v1')
    .addOption(new Option('--api-key <key>', 'key for the server').env('OPENAI_API_KEY').default('EMPTY'))
    .option('--model <name>', 'model of the server (default: the first that it has)')
    .addOption(
      new Option('--backend <kind>', 'completions, or chats')
        .choices(['openai', 'openai-chat'])
        .default('openai'),
    )
    .addOption(
      new Option(
        '--dataset-name <kind>',
        'random token ids, first messages of conversations, or a trace with its times',
      )
        .choices(DATASETS)
        .default('random'),
    )
    .option('--dataset-path <file>', 'file of --dataset-name sharegpt (JSON) or trace (JSON lines)')
    .option(
      '--num-prompts <n>',
      'requests to send (default: 100 random ones, or the whole file)',
      wholeNumber(1),
    )
    .option('--random-input-len <n>', 'tokens of each random prompt', wholeNumber(1), 1024)
    .option(
      '--output-len <n>',
      'tokens of each answer (default: 128 for random prompts, else as the file says)',
      wholeNumber(1),
    )
    .option('--seed <n>', 'of prompts and of the times at which they are sent', wholeNumber(0), 0)
    .addOption(
      new Option('--request-rate <n>', 'requests a second; inf sends all at once')
        .argParser(rate)
        .default(null, 'inf'),
    )
    .option(
      '--burstiness <n>',
      'gaps between requests: 1 is random, less comes in bursts, more is even',
      positive,
      1,
    )
    .option('--max-concurrency <n>', 'requests under way at the same time (default: all)', wholeNumber(1))
    .option('--ignore-eos', 'let no answer end before --output-len')
    .option('--temperature <n>', "temperature of the answers (default: the server's)", notNegative)
    .option(
      '--goodput <limits>',
      'count what stays below limits in ms: "ttft:200 tpot:50 e2el:2000"',
      goodput,
    )
    .option('--num-warmups <n>', 'requests before those that count', wholeNumber(0), 1)
    .option('--output-json <file>', 'write the figures as JSON; - is stdout, in place of the table')
    .option('--output-html <file>', 'write a report with plots')
    .addHelpText('after', NOTES)
    .action(async ({ datasetName, randomInputLen, ...flags }: ServeFlags) => {
      const { benchServe } = await import('./bench/serve/bench-serve.ts');
      await benchServe({
        ...flags,
        model: flags.model ?? null,
        dataset: datasetName,
        datasetPath: flags.datasetPath ?? null,
        numPrompts: flags.numPrompts ?? null,
        inputLen: randomInputLen,
        outputLen: flags.outputLen ?? null,
        maxConcurrency: flags.maxConcurrency ?? null,
        ignoreEos: flags.ignoreEos === true,
        temperature: flags.temperature ?? null,
        goodput: flags.goodput ?? null,
        outputJson: flags.outputJson ?? null,
        outputHtml: flags.outputHtml ?? null,
      });
    });
}

const NOTES = `
A line of a trace is {"timestamp": ms, "input_length": n, "output_length": n},
with "hash_ids" where blocks of 512 tokens of prompts are shared.

Examples:
  svc bench serve --request-rate 4 --goodput "ttft:500 tpot:100"
  svc bench serve --dataset-name sharegpt --dataset-path sharegpt.json \\
    --backend openai-chat --max-concurrency 16 --output-html report.html`;

/** Null is without limit. */
function rate(text: string): number | null {
  return text === 'inf' ? null : positive(text);
}

function positive(text: string): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isFinite(value) && value > 0) return value;
  throw new InvalidArgumentError('expected a number above 0');
}

function notNegative(text: string): number {
  return text === '0' ? 0 : positive(text);
}

function goodput(text: string): Goodput {
  const parts = text.trim().split(/\s+/);
  const pairs = parts.map((part): [string, number] => {
    const [name = '', limit = ''] = part.split(':');
    if (GOODPUT_NAMES.includes(name)) return [name, positive(limit)];
    throw new InvalidArgumentError(`expected limits such as "ttft:200 tpot:50 e2el:2000", got ${part}`);
  });
  return Object.fromEntries(pairs);
}
