// svc bench throughput: how much work of many requests is done a second.

import type { OptionSource } from '../../config/merge.ts';
import type { Prompt } from '../../engine/inference-engine.ts';
import { ConfigError, messageOf } from '../../errors.ts';
import { startProgress } from '../../llm/progress.ts';
import { type BenchEngine, startBenchEngine } from './bench-engine.ts';
import { type BenchReport, printReport } from './bench-report.ts';
import { expectWritable } from './output-file.ts';
import { randomPrompt, readDataset } from './prompts.ts';
import { answerParams, type TimedRequest, timeRequest } from './timed-request.ts';

export interface ThroughputOptions {
  /** Left out: all of the dataset, or `DEFAULT_NUM_PROMPTS`. */
  readonly numPrompts?: number;
  /** Tokens of a random prompt; left out: `DEFAULT_INPUT_LEN`. */
  readonly inputLen?: number;
  readonly outputLen: number;
  /** File of prompts in place of random ones. */
  readonly dataset?: string;
  /** File for the JSON; `-` is stdout. */
  readonly outputJson?: string;
}

const DEFAULT_NUM_PROMPTS = 64;
const DEFAULT_INPUT_LEN = 128;

/** @throws ConfigError for the files and for a prompt of the dataset that is too long, and what `startBenchEngine` throws. */
export async function benchThroughput(options: ThroughputOptions, flags: OptionSource): Promise<void> {
  await expectWritable('output-json', options.outputJson);
  const texts = await datasetPrompts(options);
  const { inputLen = DEFAULT_INPUT_LEN, outputLen } = options;
  const bench = await startBenchEngine(flags, texts === null ? { inputLen, outputLen, batchSize: 1 } : null);
  try {
    const prompts = texts ?? randomPrompts(bench, options);
    if (texts !== null) await expectFitting(bench, texts, options);
    const startedAt = performance.now();
    const requests = await runAll(bench, prompts, outputLen);
    const seconds = (performance.now() - startedAt) / 1000;
    await printReport(describe(requests, seconds), bench.engine.info, options.outputJson);
  } finally {
    await bench.engine.close();
  }
}

/** Null where prompts are random. */
async function datasetPrompts({
  dataset,
  inputLen,
  numPrompts,
}: ThroughputOptions): Promise<Prompt[] | null> {
  if (dataset === undefined) return null;
  if (inputLen !== undefined) {
    throw new ConfigError(
      '--input-len and --dataset exclude each other: the prompts of a dataset are as long as they are',
      { param: 'input-len' },
    );
  }
  const texts = await readDataset(dataset);
  if (numPrompts !== undefined && numPrompts > texts.length) {
    throw new ConfigError(
      `--num-prompts ${numPrompts}: --dataset ${dataset} has ${texts.length}; leave it out to take all of them`,
      { param: 'num-prompts' },
    );
  }
  return texts.slice(0, numPrompts).map((text) => ({ text }));
}

/** One that is too long would end the measurement when its turn comes. */
async function expectFitting(
  { engine }: BenchEngine,
  prompts: readonly Prompt[],
  { dataset, outputLen }: ThroughputOptions,
): Promise<void> {
  for (const [index, prompt] of prompts.entries()) {
    await engine.prepare(prompt, answerParams(outputLen)).catch((error: unknown) => {
      throw new ConfigError(`--dataset ${dataset}: prompt ${index + 1}: ${messageOf(error)}`, {
        param: 'dataset',
      });
    });
  }
}

function randomPrompts({ engine, config }: BenchEngine, options: ThroughputOptions): Prompt[] {
  const { numPrompts = DEFAULT_NUM_PROMPTS, inputLen = DEFAULT_INPUT_LEN } = options;
  const random = { seed: config.seed, vocabSize: engine.info.vocabSize };
  return Array.from({ length: numPrompts }, (_, i) => randomPrompt(random, i, inputLen));
}

/** Keeps the engine's seats full without handing it everything at once. */
async function runAll(
  { engine, config }: BenchEngine,
  prompts: readonly Prompt[],
  outputLen: number,
): Promise<TimedRequest[]> {
  const requests: TimedRequest[] = [];
  const queue = prompts.values();
  const progress = await startProgress(prompts.length, true);
  const work = async (): Promise<void> => {
    for (const prompt of queue) {
      const request = await timeRequest(engine, prompt, outputLen);
      requests.push(request);
      progress.advance(request.numPromptTokens, request.numOutputTokens);
    }
  };
  try {
    await Promise.all(Array.from({ length: 2 * config.maxNumSeqs * config.dataParallelSize }, work));
  } finally {
    progress.stop();
  }
  return requests;
}

function describe(requests: readonly TimedRequest[], seconds: number): BenchReport {
  const sum = (tokensOf: (request: TimedRequest) => number): number =>
    requests.reduce((total, request) => total + tokensOf(request), 0);
  const inputTokens = sum(({ numPromptTokens }) => numPromptTokens);
  const outputTokens = sum(({ numOutputTokens }) => numOutputTokens);
  const perSecond = (count: number): string => (count / seconds).toFixed(count / seconds < 10 ? 2 : 1);
  const tokens = inputTokens + outputTokens;
  return {
    tables: [
      [
        [
          'requests',
          `${requests.length} in ${seconds.toFixed(2)} s, ${perSecond(requests.length)} requests/s`,
        ],
        ['tokens', `${inputTokens} in, ${outputTokens} out`],
        ['total', `${perSecond(tokens)} tokens/s`],
        ['output', `${perSecond(outputTokens)} tokens/s`],
      ],
    ],
    json: {
      elapsed_time: seconds,
      num_requests: requests.length,
      total_input_tokens: inputTokens,
      total_output_tokens: outputTokens,
      requests_per_second: requests.length / seconds,
      tokens_per_second: tokens / seconds,
      output_tokens_per_second: outputTokens / seconds,
    },
  };
}
