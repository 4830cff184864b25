// svc bench latency: how long a batch of requests takes that begin together.

import type { OptionSource } from '../../config/merge.ts';
import type { InferenceEngine } from '../../engine/inference-engine.ts';
import { ConfigError } from '../../errors.ts';
import { mostBlocks } from '../../kv-cache/block-groups.ts';
import { type BatchProgress, startProgress } from '../../llm/progress.ts';
import { type BenchEngine, startBenchEngine } from './bench-engine.ts';
import { type BenchReport, printReport, timeRows } from './bench-report.ts';
import { expectWritable } from './output-file.ts';
import { randomPrompt } from './prompts.ts';
import { summarise } from './statistics.ts';
import { type TimedRequest, timeRequest } from './timed-request.ts';

export interface LatencyOptions {
  /** Tokens of a prompt, and of its answer. */
  readonly inputLen: number;
  readonly outputLen: number;
  readonly batchSize: number;
  readonly numIters: number;
  /** Iterations before those that count. */
  readonly numItersWarmup: number;
  /** File for the JSON; `-` is stdout. */
  readonly outputJson?: string;
}

interface Iteration {
  /** Until the last request of the batch is done. */
  readonly seconds: number;
  readonly requests: readonly TimedRequest[];
}

/** @throws ConfigError where the batch cannot run at once, and what `startBenchEngine` throws. */
export async function benchLatency(options: LatencyOptions, flags: OptionSource): Promise<void> {
  await expectWritable('output-json', options.outputJson);
  const bench = await startBenchEngine(flags, options);
  try {
    checkBatch(bench, options);
    const iterations = await measure(bench, options);
    await printReport(describe(options, iterations), bench.engine.info, options.outputJson);
  } finally {
    await bench.engine.close();
  }
}

/** Requests that wait for others would be measured with their wait. */
function checkBatch(
  { engine, config }: BenchEngine,
  { batchSize, inputLen, outputLen }: LatencyOptions,
): void {
  const { numBlocks } = engine.info;
  const needed = batchSize * mostBlocks(engine.info, inputLen + outputLen, config.maxNumBatchedTokens);
  if (needed <= numBlocks) return;
  throw new ConfigError(
    `--batch-size ${batchSize} with ${inputLen + outputLen} tokens each needs ${needed} blocks of the KV cache, which has ` +
      `${numBlocks}: lower it, or raise --kv-cache-memory-bytes`,
    { param: 'batch-size' },
  );
}

async function measure({ engine, config }: BenchEngine, options: LatencyOptions): Promise<Iteration[]> {
  const { batchSize, numIters, numItersWarmup } = options;
  const iterations: Iteration[] = [];
  const progress = await startProgress(batchSize * (numIters + numItersWarmup), true);
  try {
    for (let i = 0; i < numItersWarmup + numIters; i += 1) {
      const iteration = await runBatch(engine, config.seed, i, options, progress);
      if (i >= numItersWarmup) iterations.push(iteration);
    }
  } finally {
    progress.stop();
  }
  return iterations;
}

async function runBatch(
  engine: InferenceEngine,
  seed: number,
  iteration: number,
  { batchSize, inputLen, outputLen }: LatencyOptions,
  progress: BatchProgress,
): Promise<Iteration> {
  const { vocabSize } = engine.info;
  const startedAt = performance.now();
  const requests = await Promise.all(
    Array.from({ length: batchSize }, async (_, i) => {
      // Each iteration has prompts of its own: the prefix cache saves none of them work.
      const prompt = randomPrompt({ seed, vocabSize }, iteration * batchSize + i, inputLen);
      const request = await timeRequest(engine, prompt, outputLen);
      progress.advance(request.numPromptTokens, request.numOutputTokens);
      return request;
    }),
  );
  return { seconds: (performance.now() - startedAt) / 1000, requests };
}

function describe(options: LatencyOptions, iterations: readonly Iteration[]): BenchReport {
  const { inputLen, outputLen, batchSize, numIters } = options;
  const latencies = iterations.map(({ seconds }) => seconds);
  const requests = iterations.flatMap((iteration) => iteration.requests);
  const latency = summarise(latencies);
  const ttft = summarise(requests.map(({ timeToFirstToken }) => timeToFirstToken));
  const perToken = requests.flatMap(({ timePerOutputToken }) => timePerOutputToken ?? []);
  const tpot = perToken.length === 0 ? null : summarise(perToken);
  return {
    tables: [
      [
        ['batch', `${batchSize} x ${inputLen} tokens in, ${outputLen} out, ${numIters} times`],
        ['output', `${((batchSize * outputLen) / latency.mean).toFixed(1)} tokens/s`],
      ],
      timeRows({
        'whole batch': latency,
        'first token': ttft,
        ...(tpot === null ? {} : { 'token after': tpot }),
      }),
    ],
    json: {
      input_len: inputLen,
      output_len: outputLen,
      batch_size: batchSize,
      num_iters: numIters,
      avg_latency: latency.mean,
      latencies,
      percentiles: latency.percentiles,
      output_tokens_per_second: (batchSize * outputLen) / latency.mean,
      ttft,
      tpot,
    },
  };
}
