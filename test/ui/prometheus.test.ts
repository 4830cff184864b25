import fc from 'fast-check';
import { Counter, Histogram, Registry } from 'prom-client';
import { describe, expect, it } from 'vitest';
import { quantile, Reading, rate, share } from '../../ui/dashboard/prometheus.ts';

const BOUNDS = [0.1, 1, 10, 100];

describe('a reading of metrics', () => {
  it('adds up the samples of a name, whatever their labels', async () => {
    const registry = new Registry();
    const counter = new Counter({ name: 'a_total', help: 'a', labelNames: ['x'], registers: [registry] });
    counter.inc({ x: 'one, "two"} 3' }, 2);
    counter.inc({ x: 'two' }, 5);
    const reading = new Reading(await registry.metrics(), 1);
    expect([reading.sum('a_total'), reading.sum('missing')]).toEqual([7, 0]);
    expect([reading.mean('a_total'), reading.mean('missing')]).toEqual([3.5, 0]);
  });

  it('tells the growth of counters by the second, and one as a share of another', () => {
    const before = new Reading('hits 5\nasked 10\n', 10);
    const now = new Reading('hits 9\nasked 18\n', 12);
    expect([rate(before, now, 'hits'), share(before, now, 'hits', 'asked')]).toEqual([2, 0.5]);
    expect(share(now, now, 'hits', 'asked')).toBeNull();
  });

  it('finds a quantile in the bucket that holds it', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.double({ min: 0.01, max: 99, noNaN: true }), { minLength: 1, maxLength: 40 }),
        fc.array(fc.double({ min: 0.01, max: 99, noNaN: true }), { maxLength: 40 }),
        fc.double({ min: 0.01, max: 1, noNaN: true }),
        async (values, earlier, fraction) => {
          const registry = new Registry();
          const about = { name: 'seconds', help: 'a', buckets: BOUNDS, registers: [registry] };
          const histogram = new Histogram(about);
          for (const value of earlier) histogram.observe(value);
          const before = new Reading(await registry.metrics(), 1);
          for (const value of values) histogram.observe(value);
          const now = new Reading(await registry.metrics(), 2);
          const sorted = values.toSorted((a, b) => a - b);
          const exact = sorted[Math.ceil(fraction * sorted.length) - 1] ?? 0;
          const high = BOUNDS.find((bound) => exact <= bound) ?? Number.NaN;
          const low = BOUNDS[BOUNDS.indexOf(high) - 1] ?? 0;
          const found = quantile(before, now, 'seconds', fraction) ?? Number.NaN;
          expect(found).toBeGreaterThanOrEqual(low);
          expect(found).toBeLessThanOrEqual(high);
        },
      ),
    );
  });

  it('knows no quantile of nothing', () => {
    const reading = new Reading('seconds_bucket{le="1"} 4\nseconds_bucket{le="+Inf"} 4\n', 1);
    expect(quantile(reading, reading, 'seconds', 0.5)).toBeNull();
  });
});
