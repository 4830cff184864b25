// svc bench serve: sends a workload to a server that speaks the protocol, and measures what its clients would see.

import { setTimeout as sleep } from 'node:timers/promises';
import { ConfigError, SvcError } from '../../../errors.ts';
import { startProgress } from '../../../llm/progress.ts';
import { listModels } from '../../api-client.ts';
import { formatTable, type Row } from '../bench-report.ts';
import { expectWritable, writeOutput } from '../output-file.ts';
import { arrivals } from './arrivals.ts';
import { htmlReport } from './html-report.ts';
import {
  type Goodput,
  MEASURES,
  type Measure,
  type ServingMetrics,
  servingMetrics,
} from './serving-metrics.ts';
import { type Backend, LoadClient, type TimedAnswer } from './timed-answer.ts';
import { readWorkload, type WorkloadOptions, type WorkloadRequest } from './workload.ts';

export interface BenchServeOptions extends WorkloadOptions {
  /** With /v1. */
  readonly url: string;
  readonly apiKey: string;
  /** Null: the first that the server has. */
  readonly model: string | null;
  readonly backend: Backend;
  /** Requests a second; null sends as soon as `maxConcurrency` lets it. */
  readonly requestRate: number | null;
  readonly burstiness: number;
  readonly maxConcurrency: number | null;
  readonly headers: Readonly<Record<string, string>>;
  /** Fields of every request. */
  readonly extraBody: Readonly<Record<string, unknown>>;
  readonly goodput: Goodput | null;
  /** Percentiles to report, 0 to 100. */
  readonly percentiles: readonly number[];
  readonly hasProgress: boolean;
  readonly numWarmups: number;
  /** `-` is stdout. */
  readonly outputJson: string | null;
  readonly outputHtml: string | null;
}

/** @throws ConfigError for the options, ApiError where the server cannot be asked, SvcError where it answers nothing. */
export async function benchServe(options: BenchServeOptions): Promise<void> {
  await expectWritable('output-json', options.outputJson);
  await expectWritable('output-html', options.outputHtml);
  const workload = await readWorkload(options);
  if (options.backend === 'openai-chat' && workload.some(({ prompt }) => typeof prompt !== 'string')) {
    throw new ConfigError(
      `--backend openai-chat needs texts, and --dataset-name ${options.dataset} has token ids: take --backend openai`,
      { param: 'backend' },
    );
  }
  const [first] = await listModels(options);
  const model = options.model ?? first?.id ?? '';
  await warmUp(options, model, workload);
  const answers = await runWorkload(options, model, workload);
  const metrics = servingMetrics(answers, options);
  await report(options, model, answers, metrics);
}

function clientOf(options: BenchServeOptions, model: string): LoadClient {
  const { url, apiKey, headers, backend, extraBody } = options;
  return new LoadClient({ url, apiKey, headers, backend, model, extraBody });
}

/** @throws ConfigError where the server does not answer them: nothing would be measured. */
async function warmUp(
  options: BenchServeOptions,
  model: string,
  workload: readonly WorkloadRequest[],
): Promise<void> {
  const client = clientOf(options, model);
  try {
    for (const request of workload.slice(0, options.numWarmups)) {
      const { error } = await client.answer(request);
      if (error !== null) throw new ConfigError(`the server does not answer the first requests: ${error}`);
    }
  } finally {
    await client.close();
  }
}

async function runWorkload(
  options: BenchServeOptions,
  model: string,
  workload: readonly WorkloadRequest[],
): Promise<TimedAnswer[]> {
  const { requestRate: rate, burstiness, seed, maxConcurrency } = options;
  const times = arrivals(workload.length, { rate, burstiness, seed });
  const progress = await startProgress(workload.length, options.hasProgress);
  const client = clientOf(options, model);
  const startedAt = performance.now();
  const queue = workload.entries();
  const answers: TimedAnswer[] = [];
  const work = async (): Promise<void> => {
    for (const [i, request] of queue) {
      const dueMs = 1000 * (request.at ?? times[i] ?? 0) - (performance.now() - startedAt);
      if (dueMs > 0) await sleep(dueMs);
      const answer = await client.answer(request);
      answers.push(answer);
      progress.advance(answer.promptTokens, answer.outputTokens);
    }
  };
  try {
    const numWorkers = Math.min(maxConcurrency ?? workload.length, workload.length);
    await Promise.all(Array.from({ length: numWorkers }, work));
  } finally {
    progress.stop();
    await client.close();
  }
  return answers;
}

async function report(
  options: BenchServeOptions,
  model: string,
  answers: readonly TimedAnswer[],
  metrics: ServingMetrics,
): Promise<void> {
  const { outputJson, outputHtml } = options;
  const tables = tablesOf(options, model, metrics);
  const json = `${JSON.stringify(jsonOf(options, model, metrics), null, 2)}\n`;
  process.stdout.write(outputJson === '-' ? json : tables.map(formatTable).join('\n'));
  if (outputJson !== null && outputJson !== '-') await writeOutput('output-json', outputJson, json);
  if (outputHtml !== null) await writeOutput('output-html', outputHtml, htmlReport(tables, answers));
  const failed = answers.find(({ error }) => error !== null);
  if (failed === undefined) return;
  if (metrics.completed === 0)
    throw new SvcError(`no request was answered, so nothing is measured: ${failed.error}`);
  process.stderr.write(`the first failure: ${failed.error}\n`);
}

function tablesOf(
  { requestRate, maxConcurrency, percentiles }: BenchServeOptions,
  model: string,
  metrics: ServingMetrics,
): readonly (readonly Row[])[] {
  const rows: Row[] = [
    ['Model', model],
    ['Successful requests', `${metrics.completed}`],
    ['Failed requests', `${metrics.failed}`],
    ...(maxConcurrency === null ? [] : [['Maximum request concurrency', `${maxConcurrency}`] as const]),
    ...(requestRate === null ? [] : [['Request rate configured (RPS)', fixed(requestRate)] as const]),
    ['Benchmark duration (s)', fixed(metrics.duration)],
    ['Total input tokens', `${metrics.total_input_tokens}`],
    ['Total generated tokens', `${metrics.total_output_tokens}`],
    ['Request throughput (req/s)', fixed(metrics.request_throughput)],
    ...(metrics.request_goodput === null
      ? []
      : [['Request goodput (req/s)', fixed(metrics.request_goodput)] as const]),
    ['Output token throughput (tok/s)', fixed(metrics.output_throughput)],
    ['Peak output token throughput (tok/s)', fixed(metrics.max_output_tokens_per_s)],
    ['Peak concurrent requests', `${metrics.max_concurrent_requests}`],
    ['Total token throughput (tok/s)', fixed(metrics.total_token_throughput)],
  ];
  const columns = ['mean', 'median', 'std', ...percentiles.map((percent) => `p${percent}`)];
  const measured = measures().map(([name, title]): Row => {
    const distribution = metrics.distributions[name];
    return [
      title,
      ...columns.map((column) => (distribution === null ? '-' : fixed(distribution[column] ?? 0))),
    ];
  });
  return [rows, [['ms', ...columns], ...measured]];
}

function measures(): [Measure, string][] {
  return [
    ['ttft', MEASURES.ttft],
    ['tpot', MEASURES.tpot],
    ['itl', MEASURES.itl],
    ['e2el', MEASURES.e2el],
  ];
}

function jsonOf(options: BenchServeOptions, model: string, metrics: ServingMetrics): object {
  const { distributions, ...figures } = metrics;
  const times = measures().flatMap(([name]) =>
    Object.entries(distributions[name] ?? {}).map(([column, value]) => [`${column}_${name}_ms`, value]),
  );
  return {
    date: new Date().toISOString(),
    backend: options.backend,
    model_id: model,
    num_prompts: metrics.completed + metrics.failed,
    request_rate: options.requestRate ?? 'inf',
    burstiness: options.burstiness,
    max_concurrency: options.maxConcurrency,
    ...figures,
    ...Object.fromEntries(times),
  };
}

function fixed(value: number): string {
  return value.toFixed(2);
}
