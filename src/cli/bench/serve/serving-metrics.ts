// What a measurement of a server comes to: the names and definitions are those of other servers' benchmarks.

import { percentileOf } from '../statistics.ts';
import type { TimedAnswer } from './timed-answer.ts';

/** Milliseconds that a good request stays below. */
export type Goodput = Readonly<Partial<Record<'ttft' | 'tpot' | 'e2el', number>>>;

/** Milliseconds: `mean`, `median`, `std`, and `p99` for each percentile that was asked for. */
export type Distribution = Readonly<Record<string, number>>;

interface MetricsOptions {
  readonly goodput: Goodput | null;
  readonly percentiles: readonly number[];
}

export const MEASURES = {
  ttft: 'Time to First Token',
  tpot: 'Time per Output Token (excl. 1st token)',
  itl: 'Inter-token Latency',
  e2el: 'End-to-end Latency',
} as const;
export type Measure = keyof typeof MEASURES;

export interface ServingMetrics {
  readonly duration: number;
  readonly completed: number;
  readonly failed: number;
  readonly total_input_tokens: number;
  readonly total_output_tokens: number;
  readonly request_throughput: number;
  /** Null where no limits were given. */
  readonly request_goodput: number | null;
  readonly output_throughput: number;
  readonly total_token_throughput: number;
  readonly max_output_tokens_per_s: number;
  readonly max_concurrent_requests: number;
  /** Null where nothing was measured. */
  readonly distributions: Readonly<Record<Measure, Distribution | null>>;
}

export function servingMetrics(
  answers: readonly TimedAnswer[],
  { goodput, percentiles }: MetricsOptions,
): ServingMetrics {
  const good = answers.filter(({ error }) => error === null);
  const duration = answers.reduce((last, { endedAt }) => Math.max(last, endedAt), 0) || 1e-9;
  const sum = (of: (answer: TimedAnswer) => number): number =>
    good.reduce((total, answer) => total + of(answer), 0);
  const input = sum(({ promptTokens }) => promptTokens);
  const output = sum(({ outputTokens }) => outputTokens);
  const numGood = good.filter((answer) => isGood(answer, goodput ?? {})).length;
  return {
    duration,
    completed: good.length,
    failed: answers.length - good.length,
    total_input_tokens: input,
    total_output_tokens: output,
    request_throughput: good.length / duration,
    request_goodput: goodput === null ? null : numGood / duration,
    output_throughput: output / duration,
    total_token_throughput: (input + output) / duration,
    max_output_tokens_per_s: tokensBySecond(good).reduce((most, count) => Math.max(most, count), 0),
    max_concurrent_requests: mostAtOnce(answers),
    distributions: {
      ttft: distribution(
        good.map(({ ttft }) => ttft),
        percentiles,
      ),
      tpot: distribution(
        good.flatMap((answer) => tpotOf(answer) ?? []),
        percentiles,
      ),
      itl: distribution(
        good.flatMap(({ interTokenLatencies }) => interTokenLatencies),
        percentiles,
      ),
      e2el: distribution(
        good.map(({ sentAt, endedAt }) => endedAt - sentAt),
        percentiles,
      ),
    },
  };
}

/** Chunks of all answers in each second of the measurement. */
export function tokensBySecond(answers: readonly TimedAnswer[]): number[] {
  const counts: number[] = [];
  for (const { sentAt, ttft, interTokenLatencies } of answers) {
    let at = sentAt + ttft;
    for (const gap of [0, ...interTokenLatencies]) {
      at += gap;
      counts[Math.floor(at)] = (counts[Math.floor(at)] ?? 0) + 1;
    }
  }
  return Array.from(counts, (count) => count ?? 0);
}

/** Null for an answer of one token. */
function tpotOf({ sentAt, endedAt, ttft, outputTokens }: TimedAnswer): number | null {
  return outputTokens < 2 ? null : (endedAt - sentAt - ttft) / (outputTokens - 1);
}

function isGood(answer: TimedAnswer, limits: Goodput): boolean {
  const measured = {
    ttft: answer.ttft,
    tpot: tpotOf(answer) ?? 0,
    e2el: answer.endedAt - answer.sentAt,
  };
  return Object.entries(measured).every(
    ([name, seconds]) => 1000 * seconds <= (limits[name as keyof Goodput] ?? Number.POSITIVE_INFINITY),
  );
}

function mostAtOnce(answers: readonly TimedAnswer[]): number {
  const changes = answers.flatMap(({ sentAt, endedAt }) => [[sentAt, 1] as const, [endedAt, -1] as const]);
  // Who ends gives place to who begins at the same time.
  changes.sort(([a, first], [b, second]) => a - b || first - second);
  let [now, most] = [0, 0];
  for (const [, change] of changes) {
    now += change;
    most = Math.max(most, now);
  }
  return most;
}

function distribution(seconds: readonly number[], percentiles: readonly number[]): Distribution | null {
  if (seconds.length === 0) return null;
  const sorted = seconds.map((value) => 1000 * value).sort((a, b) => a - b);
  const mean = sorted.reduce((sum, value) => sum + value, 0) / sorted.length;
  const variance = sorted.reduce((sum, value) => sum + (value - mean) ** 2, 0) / sorted.length;
  return {
    mean,
    median: percentileOf(sorted, 50),
    std: Math.sqrt(variance),
    ...Object.fromEntries(percentiles.map((percent) => [`p${percent}`, percentileOf(sorted, percent)])),
  };
}
