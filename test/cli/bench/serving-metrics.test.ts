import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { arrivals } from '../../../src/cli/bench/serve/arrivals.ts';
import { htmlReport } from '../../../src/cli/bench/serve/html-report.ts';
import { servingMetrics, tokensBySecond } from '../../../src/cli/bench/serve/serving-metrics.ts';
import type { TimedAnswer } from '../../../src/cli/bench/serve/timed-answer.ts';

function answered(
  sentAt: number,
  ttft: number,
  gaps: readonly number[],
  error: string | null = null,
): TimedAnswer {
  const endedAt = gaps.reduce((at, gap) => at + gap, sentAt + ttft);
  return {
    sentAt,
    endedAt,
    ttft,
    interTokenLatencies: gaps,
    promptTokens: 10,
    outputTokens: gaps.length + 1,
    error,
  };
}

describe('the metrics of a server', () => {
  it('are those of the answers that came, over the whole time', () => {
    const answers = [answered(0, 0.1, [0.1, 0.3]), answered(0.2, 0.3, []), answered(1.4, 0.6, [], '500: no')];
    const metrics = servingMetrics(answers, { goodput: { ttft: 200 }, percentiles: [99] });
    expect(metrics).toMatchObject({
      duration: 2,
      completed: 2,
      failed: 1,
      total_input_tokens: 20,
      total_output_tokens: 4,
      request_throughput: 1,
      request_goodput: 0.5,
      output_throughput: 2,
      total_token_throughput: 12,
      max_output_tokens_per_s: 4,
      max_concurrent_requests: 2,
    });
    const { ttft, tpot, itl, e2el } = metrics.distributions;
    expect(ttft?.mean).toBeCloseTo(200);
    // An answer of one token has no time between tokens.
    expect(tpot?.mean).toBeCloseTo(200);
    expect([itl?.median, itl?.std].map((value) => value?.toFixed(3))).toEqual(['200.000', '100.000']);
    expect(e2el?.p99).toBeCloseTo(498);
  });

  it('are there where nothing was answered', () => {
    const metrics = servingMetrics([answered(0, 1, [], '503: later')], { goodput: null, percentiles: [99] });
    expect(metrics).toMatchObject({ completed: 0, failed: 1, request_goodput: null });
    expect(metrics.distributions).toEqual({ ttft: null, tpot: null, itl: null, e2el: null });
  });

  it('are those of more answers than a call has room for arguments', () => {
    const answers = new Array<TimedAnswer>(200_000).fill(answered(0, 1, []));
    const metrics = servingMetrics(answers, { goodput: null, percentiles: [99] });
    expect(metrics).toMatchObject({ completed: 200_000, duration: 1, max_output_tokens_per_s: 200_000 });
    expect(htmlReport([], answers)).toContain('</html>');
  });

  it('count each chunk in the second in which it came', () => {
    expect(tokensBySecond([answered(0.5, 0.1, [0.1, 2])])).toEqual([2, 0, 1]);
  });
});

describe('arrivals', () => {
  it('come all at once without a rate', () => {
    expect(arrivals(3, { rate: null, burstiness: 1, seed: 0 })).toEqual([0, 0, 0]);
  });

  it('come at the rate, in rising order, and are as bursty as they should be', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 1e6 }),
        fc.constantFrom(0.3, 1, 4),
        fc.constantFrom(0.5, 20),
        (seed, burstiness, rate) => {
          const times = arrivals(4001, { rate, burstiness, seed });
          const gaps = times.slice(1).map((time, i) => time - times[i]!);
          expect(Math.min(...gaps)).toBeGreaterThanOrEqual(0);
          const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
          const variance = gaps.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / gaps.length;
          expect(mean * rate).toBeGreaterThan(0.8);
          expect(mean * rate).toBeLessThan(1.2);
          // Of a gamma distribution: the variance by the square of the mean is 1 / shape.
          expect((variance / mean ** 2) * burstiness).toBeGreaterThan(0.5);
          expect((variance / mean ** 2) * burstiness).toBeLessThan(1.9);
        },
      ),
      { numRuns: 20, seed: 7 },
    );
  });
});

it('the report shows the figures and a mark for each answer, and runs nothing', () => {
  const page = htmlReport(
    [[['a < b', '1']]],
    [answered(0, 0.1, [0.1]), answered(1, 0.2, []), answered(1, 0.2, [], 'x')],
  );
  expect(page).toContain('<td>a &lt; b</td><td>1</td>');
  expect(page.match(/<circle/g)).toHaveLength(4);
  expect(page).not.toMatch(/<script|https?:/);
  expect(htmlReport([], [])).toContain('<svg');
});
