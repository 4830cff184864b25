// The flags of svc bench, whose commands measure a model without serving it.

import { type Command, Option } from 'commander';
import {
  type DTypeOption,
  type KvCacheDType,
  QUANTIZATIONS,
  type Quantization,
} from '../config/engine-config.ts';
import type { ForeignFlag } from '../config/foreign-options.ts';
import type { LatencyOptions } from './bench/latency.ts';
import type { ThroughputOptions } from './bench/throughput.ts';
import { addBenchServe } from './bench-serve-command.ts';
import { ENGINE_OPTIONS, type EngineFlags } from './engine-flags.ts';
import { addOptions, wholeNumber } from './flags.ts';

interface QualityFlags {
  readonly quantization?: Quantization;
  readonly kvCacheDtype?: KvCacheDType;
  readonly dtype: DTypeOption;
  readonly textFile: string;
  readonly numTokens: number;
  readonly outputJson?: string;
}

const MODEL =
  'folder or GGUF file of a model, or its name on the hub; without it, the small chat model of svc';

export function addBenchCommands(
  svc: Command,
  engineFlags: EngineFlags,
  foreign: readonly ForeignFlag[],
): void {
  const bench = svc.command('bench').description('measure a model on this machine');
  addBenchServe(bench, foreign);
  addQuality(bench);
  addLatency(bench, engineFlags);
  addThroughput(bench, engineFlags);
}

function addLatency(bench: Command, engineFlags: EngineFlags): void {
  const latency = bench
    .command('latency')
    .description('measure how long a batch of random prompts takes that begin together')
    .argument('[model]', MODEL)
    .addOption(count('--input-len <n>', 'tokens of each prompt', 32))
    .addOption(count('--output-len <n>', 'tokens of each answer', 128))
    .addOption(count('--batch-size <n>', 'prompts of the batch', 8))
    .addOption(count('--num-iters <n>', 'how often the batch is measured', 10))
    .addOption(
      measured('--num-iters-warmup <n>', 'batches before those that count')
        .argParser(wholeNumber(0))
        .default(2),
    )
    .addOption(outputJson())
    .addHelpOption(help())
    .addHelpText('after', LATENCY_NOTES)
    .action(async (model: string | undefined, flags: LatencyOptions & Record<string, unknown>) => {
      const { benchLatency } = await import('./bench/latency.ts');
      await benchLatency(flags, engineFlags(flags, model));
    });
  addOptions(ENGINE_OPTIONS, latency);
}

function addThroughput(bench: Command, engineFlags: EngineFlags): void {
  const throughput = bench
    .command('throughput')
    .description('measure how many requests and tokens a second are done of many prompts')
    .argument('[model]', MODEL)
    .addOption(count('--num-prompts <n>', 'prompts to run (default: 64, or all of --dataset)'))
    .addOption(count('--input-len <n>', 'tokens of each random prompt (default: 128)'))
    .addOption(count('--output-len <n>', 'tokens of each answer', 128))
    .addOption(
      measured(
        '--dataset <file>',
        'texts in place of random prompts: one a line, or *.jsonl with the field prompt',
      ),
    )
    .addOption(outputJson())
    .addHelpOption(help())
    .addHelpText('after', THROUGHPUT_NOTES)
    .action(async (model: string | undefined, flags: ThroughputOptions & Record<string, unknown>) => {
      const { benchThroughput } = await import('./bench/throughput.ts');
      await benchThroughput(flags, engineFlags(flags, model));
    });
  addOptions(ENGINE_OPTIONS, throughput);
}

function measured(flags: string, description: string): Option {
  return new Option(flags, description).helpGroup('Measurement:');
}

function count(flags: string, description: string, fallback?: number): Option {
  return measured(flags, description).argParser(wholeNumber(1)).default(fallback);
}

function help(): Option {
  return measured('-h, --help', 'print this help');
}

function outputJson(): Option {
  return measured('--output-json <file>', 'write the figures as JSON; - is stdout, in place of the table');
}

const LATENCY_NOTES = `
All answers are as long as --output-len says: end tokens end nothing.

Examples:
  svc bench latency ./Qwen2.5-0.5B-Instruct --input-len 512 --batch-size 1
  svc bench latency --quantization int8 --output-json latency.json`;

const THROUGHPUT_NOTES = `
All answers are as long as --output-len says: end tokens end nothing.

Examples:
  svc bench throughput ./Qwen2.5-0.5B-Instruct --num-prompts 32
  svc bench throughput --dataset prompts.jsonl --output-json -`;

function addQuality(bench: Command): void {
  bench
    .command('quality')
    .description(
      'compare the predictions of a model in fewer bits with those of the published one, on a text',
    )
    .argument('[model]', MODEL)
    .addOption(
      new Option(
        '--quantization <scheme>',
        'weights to judge (default: int8, with --kv-cache-dtype as published)',
      ).choices(QUANTIZATIONS),
    )
    .addOption(new Option('--kv-cache-dtype <format>', 'keys and values to judge').choices(['fp8', 'int8']))
    .addOption(
      new Option('--dtype <format>', 'weights and activations of both: bfloat16 for one published in float32')
        .choices(['auto', 'bfloat16'])
        .default('auto'),
    )
    .requiredOption(
      '--text-file <path>',
      'text to predict, such as a page of what the model will be used for',
    )
    .option('--num-tokens <n>', 'tokens of the text to look at, at least 2', wholeNumber(2), 4096)
    .addOption(outputJson())
    .action(async (model: string | undefined, flags: QualityFlags) => {
      const { benchQuality } = await import('./bench/quality.ts');
      const { kvCacheDtype = 'auto' } = flags;
      const precision = {
        quantization: flags.quantization ?? (kvCacheDtype === 'auto' ? 'int8' : null),
        kvCacheDtype,
      };
      await benchQuality({ ...flags, precision, model });
    });
}
