// The flags of svc bench serve.

import { type Command, InvalidArgumentError, Option } from 'commander';
import * as z from 'zod';
import { type ForeignFlag, foreignNotice } from '../config/foreign-options.ts';
import { ConfigError } from '../errors.ts';
import { parseJson } from '../util/parse-json.ts';
import { urlHost } from '../util/url-host.ts';
import { apiKeyOption } from './api-key-option.ts';
import type { Goodput } from './bench/serve/serving-metrics.ts';
import type { Backend } from './bench/serve/timed-answer.ts';
import { DATASETS, type DatasetName } from './bench/serve/workload.ts';
import { httpUrl, wholeNumber } from './flags.ts';

interface ServeFlags {
  readonly url?: string;
  readonly baseUrl?: string;
  readonly host?: string;
  readonly port?: number;
  readonly header?: readonly string[];
  readonly apiKey: string;
  readonly model?: string;
  readonly backend: Backend;
  readonly endpoint?: string;
  readonly datasetName: DatasetName;
  readonly datasetPath?: string;
  readonly numPrompts?: number;
  readonly randomInputLen: number;
  readonly randomPrefixLen: number;
  readonly randomRangeRatio: number;
  readonly outputLen?: number;
  readonly randomOutputLen?: number;
  readonly sharegptOutputLen?: number;
  readonly seed: number;
  readonly requestRate: number;
  readonly burstiness: number;
  readonly maxConcurrency?: number;
  readonly ignoreEos?: true;
  readonly temperature?: number;
  readonly topP?: number;
  readonly topK?: number;
  readonly minP?: number;
  readonly logprobs?: number;
  readonly extraBody?: Readonly<Record<string, unknown>>;
  readonly goodput?: Goodput;
  readonly metricPercentiles: readonly number[];
  readonly disableTqdm?: true;
  readonly numWarmups: number;
  readonly outputJson?: string;
  readonly outputHtml?: string;
}

const positive = numberWhere((value) => value > 0, 'a number above 0');
const notNegative = numberWhere((value) => value >= 0, 'a number of at least 0');
const fraction = numberWhere((value) => value >= 0 && value < 1, 'a number from 0 to below 1');
const percentile = numberWhere(
  (value) => value >= 0 && value <= 100,
  'numbers from 0 to 100, such as 50,90,99',
);

const GOODPUT_NAMES = ['ttft', 'tpot', 'e2el'];

const DEFAULT_OUTPUT_LEN = 128;

/** With what headers can carry. */
const HEADER = /^([\w-]+)=([\t\x20-\x7e\x80-\xff]*)$/;

const PATHS = { openai: '/v1/completions', 'openai-chat': '/v1/chat/completions' } as const;

export function addBenchServe(bench: Command, foreign: readonly ForeignFlag[]): void {
  bench
    .command('serve')
    .description('measure a running server as its clients see it')
    .addOption(
      new Option('--url <url>', 'address of the server, with /v1 (default: http://localhost:8000/v1)')
        .argParser(httpUrl('http://localhost:8000/v1'))
        .conflicts(['baseUrl', 'host', 'port']),
    )
    .addOption(
      new Option('--base-url <url>', 'the same without /v1')
        .argParser(httpUrl('http://localhost:8000'))
        .conflicts(['host', 'port']),
    )
    .option('--host <name>', 'the host alone (default: localhost)')
    .option('--port <n>', 'the port alone (default: 8000)', wholeNumber(1, 65_535))
    .option('--header <name=value...>', 'headers to send with each request')
    .addOption(apiKeyOption())
    .option('--model <name>', 'model of the server (default: the first that it has)')
    .addOption(
      new Option('--backend <kind>', 'openai, completions (vllm is the same), or openai-chat, chats')
        .argParser(backendOf)
        .default('openai'),
    )
    .addOption(
      new Option('--endpoint <path>', 'path of --backend, if it is to be said').choices(Object.values(PATHS)),
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
    .option('--random-prefix-len <n>', 'tokens before these that all random prompts share', wholeNumber(0), 0)
    .option(
      '--random-range-ratio <n>',
      'let random lengths differ: 0.1 is 10 % less to 10 % more',
      fraction,
      0,
    )
    .option(
      '--output-len <n>',
      'tokens of each answer (default: 128; a trace says it, and chats end by themselves)',
      wholeNumber(1),
    )
    .option('--random-output-len <n>', 'the same, for random prompts only', wholeNumber(1))
    .option('--sharegpt-output-len <n>', 'the same, for conversations only', wholeNumber(1))
    .option('--seed <n>', 'of prompts and of the times at which they are sent', wholeNumber(0), 0)
    .addOption(
      new Option('--request-rate <n>', 'requests a second; inf sends all at once')
        .argParser(rate)
        .default(Number.POSITIVE_INFINITY, 'inf'),
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
    .option('--top-p <n>', 'top_p of the answers', positive)
    .option('--top-k <n>', 'top_k of the answers', wholeNumber(0))
    .option('--min-p <n>', 'min_p of the answers', notNegative)
    .option('--logprobs <n>', 'ask for the log-probabilities of so many tokens', wholeNumber(0))
    .option('--extra-body <json>', 'more fields of each request', jsonObject)
    .option(
      '--goodput <limits...>',
      'count what stays below limits in ms: ttft:200 tpot:50 e2el:2000',
      goodput,
    )
    .option('--metric-percentiles <list>', 'percentiles to report', percentiles, [99])
    .option('--disable-tqdm', 'draw no progress bar')
    .option('--num-warmups <n>', 'requests before those that count', wholeNumber(0), 1)
    .option('--output-json <file>', 'write the figures as JSON; - is stdout, in place of the table')
    .option('--output-html <file>', 'write a report with plots')
    .addHelpText('after', NOTES)
    .action(async (flags: ServeFlags) => {
      for (const flag of foreign) process.stderr.write(`warning: ${foreignNotice(flag)}\n`);
      checkEndpoint(flags);
      const { benchServe } = await import('./bench/serve/bench-serve.ts');
      await benchServe({
        ...flags,
        url: urlOf(flags),
        headers: headersOf(flags),
        extraBody: extraBodyOf(flags),
        model: flags.model ?? null,
        requestRate: Number.isFinite(flags.requestRate) ? flags.requestRate : null,
        dataset: flags.datasetName,
        datasetPath: flags.datasetPath ?? null,
        numPrompts: flags.numPrompts ?? null,
        inputLen: flags.randomInputLen,
        prefixLen: flags.randomPrefixLen,
        rangeRatio: flags.randomRangeRatio,
        outputLen: outputLenOf(flags),
        maxConcurrency: flags.maxConcurrency ?? null,
        goodput: flags.goodput ?? null,
        percentiles: flags.metricPercentiles,
        hasProgress: flags.disableTqdm !== true,
        outputJson: flags.outputJson ?? null,
        outputHtml: flags.outputHtml ?? null,
      });
    });
}

function urlOf({ url, baseUrl, host = 'localhost', port = 8000 }: ServeFlags): string {
  if (url !== undefined) return url;
  const root = baseUrl ?? `http://${urlHost(host)}:${port}`;
  if (!URL.canParse(root)) {
    throw new ConfigError(`--host ${host}: expected the name or IP address of a server, such as localhost`, {
      param: 'host',
    });
  }
  return `${root.replace(/\/+$/, '')}/v1`;
}

function headersOf({ header = [] }: ServeFlags): Record<string, string> {
  const pairs = header.map((text): [string, string] => {
    const [, name, value] = HEADER.exec(text) ?? [];
    if (name !== undefined && value !== undefined) return [name.toLowerCase(), value];
    throw new ConfigError(`--header ${text}: expected a header such as X-Team=search`, { param: 'header' });
  });
  return Object.fromEntries(pairs);
}

/** @throws ConfigError where --endpoint says something else than --backend. */
function checkEndpoint({ backend, endpoint }: ServeFlags): void {
  if (endpoint === undefined || endpoint === PATHS[backend]) return;
  const other = backend === 'openai' ? 'openai-chat' : 'openai';
  throw new ConfigError(`--endpoint ${endpoint} needs --backend ${other}`, { param: 'endpoint' });
}

/** Null where a trace or the model says it: a completion without a length would have the 16 tokens of the protocol. */
function outputLenOf({ datasetName, backend, ...flags }: ServeFlags): number | null {
  const own = { random: flags.randomOutputLen, sharegpt: flags.sharegptOutputLen, trace: undefined };
  const isSaid = datasetName === 'trace' || backend === 'openai-chat';
  return own[datasetName] ?? flags.outputLen ?? (isSaid ? null : DEFAULT_OUTPUT_LEN);
}

/** Fields of every request; what is left out is left to the server. */
function extraBodyOf({ backend, logprobs, ...flags }: ServeFlags): Record<string, unknown> {
  const asked = backend === 'openai' ? { logprobs } : { logprobs: true, top_logprobs: logprobs };
  return {
    ignore_eos: flags.ignoreEos,
    temperature: flags.temperature,
    top_p: flags.topP,
    top_k: flags.topK,
    min_p: flags.minP,
    ...(logprobs !== undefined && asked),
    ...flags.extraBody,
  };
}

const NOTES = `
A line of a trace is {"timestamp": ms, "input_length": n, "output_length": n},
with "hash_ids" where blocks of 512 tokens of prompts are shared.

Examples:
  svc bench serve --request-rate 4 --goodput ttft:500 tpot:100
  svc bench serve --dataset-name sharegpt --dataset-path sharegpt.json \\
    --backend openai-chat --max-concurrency 16 --output-html report.html`;

/** Commander takes null for a flag without a value: without limit is a number. */
function rate(text: string): number {
  if (text === 'inf') return Number.POSITIVE_INFINITY;
  return numberWhere((value) => value > 0, 'a number above 0, or inf')(text);
}

/** Reads a number for which `holds`. */
function numberWhere(holds: (value: number) => boolean, expected: string): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (text.trim() !== '' && Number.isFinite(value) && holds(value)) return value;
    throw new InvalidArgumentError(`expected ${expected}`);
  };
}

function percentiles(text: string): number[] {
  return text.split(',').map(percentile);
}

function jsonObject(text: string): Readonly<Record<string, unknown>> {
  const { data } = z.record(z.string(), z.unknown()).safeParse(parseJson(text));
  if (data !== undefined) return data;
  throw new InvalidArgumentError('expected an object of JSON such as {"top_k": 5}');
}

/** Commands of vLLM have its own name for completions. */
function backendOf(text: string): Backend {
  if (text === 'vllm') return 'openai';
  if (text === 'openai' || text === 'openai-chat') return text;
  throw new InvalidArgumentError('expected openai or openai-chat');
}

/** Limits come in one text, or one by one. */
function goodput(text: string, before: Goodput = {}): Goodput {
  const parts = text.trim().split(/\s+/);
  const pairs = parts.map((part): [string, number] => {
    const [name = '', limit = ''] = part.split(':');
    if (GOODPUT_NAMES.includes(name)) return [name, positive(limit)];
    throw new InvalidArgumentError(`expected limits such as ttft:200 tpot:50 e2el:2000, got ${part}`);
  });
  return { ...before, ...Object.fromEntries(pairs) };
}
