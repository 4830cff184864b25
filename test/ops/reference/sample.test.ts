import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ShapeError } from '../../../src/errors.ts';
import { ReferenceOps } from '../../../src/ops/reference/reference-ops.ts';

const ops = new ReferenceOps();

interface Settings {
  temperature?: number;
  topK?: number;
  topP?: number;
  minP?: number;
  uniform?: number;
}

/** One row, all of its settings neutral but those given. */
function sample(logits: number[], settings: Settings): number {
  const { temperature = 1, topK = 0, topP = 1, minP = 0, uniform = 0 } = settings;
  return ops
    .sample(ops.tensor(Float32Array.from(logits), 1, logits.length, 'f32'), {
      temperature: Float32Array.of(temperature),
      topK: Int32Array.of(topK),
      topP: Float32Array.of(topP),
      minP: Float32Array.of(minP),
      uniform: Float64Array.of(uniform),
    })
    .read()[0]!;
}

/** All ids that some draw gives. */
function reachable(logits: number[], settings: Settings): number[] {
  const draws = Array.from({ length: 1000 }, (_, i) => sample(logits, { ...settings, uniform: i / 1000 }));
  return [...new Set(draws)].sort((a, b) => a - b);
}

const log = (...weights: number[]) => weights.map(Math.log);

describe('sample', () => {
  it('takes the lowest id among the largest at temperature 0, whatever else is set', () => {
    expect(sample([1, 5, 5, 2], { temperature: 0, uniform: 0.99, topK: 1, topP: 0.1 })).toBe(1);
  });

  it('draws in proportion to the weights, walking the ids upwards', () => {
    const logits = log(1, 2, 1);
    const drawn = [0, 0.2499, 0.2501, 0.7499, 0.7501, 0.9999].map((uniform) => sample(logits, { uniform }));
    expect(drawn).toEqual([0, 0, 1, 1, 2, 2]);
  });

  it('divides by the temperature first', () => {
    // At temperature 1/2 the weights 1 and 3 become 1 and 9.
    expect(sample(log(1, 3), { temperature: 0.5, uniform: 0.0999 })).toBe(0);
    expect(sample(log(1, 3), { temperature: 0.5, uniform: 0.1001 })).toBe(1);
  });

  it('drops what is less probable than min_p times the most probable', () => {
    expect(reachable(log(1, 10, 4.9, 5.1), { minP: 0.5 })).toEqual([1, 3]);
  });

  it('keeps the k largest, and all that equal the k-th', () => {
    expect(reachable(log(4, 1, 2, 2, 3), { topK: 2 })).toEqual([0, 4]);
    expect(reachable(log(4, 1, 2, 2, 3), { topK: 3 })).toEqual([0, 2, 3, 4]);
    expect(reachable(log(1, 2), { topK: 5 })).toEqual([0, 1]);
  });

  it('keeps the smallest set of most probable tokens that reaches p', () => {
    expect(reachable(log(1, 5, 1, 3), { topP: 0.5 })).toEqual([1]);
    expect(reachable(log(1, 5, 1, 3), { topP: 0.51 })).toEqual([1, 3]);
    expect(reachable(log(1, 5, 1, 3), { topP: 0.81 })).toEqual([0, 1, 3]);
  });

  it('keeps the lower of two equal ids at the edge of top_p, and at least one', () => {
    expect(reachable(log(1, 1, 1, 1), { topP: 0.3 })).toEqual([0, 1]);
    expect(reachable(log(1, 1), { topP: 1e-6 })).toEqual([0]);
  });

  it('applies top_p to what top_k and min_p left', () => {
    // Of 4, 3, 2, 1 top_k leaves 4 and 3: 4 alone is more than half of them, and less than half of all.
    expect(reachable(log(4, 3, 2, 1), { topK: 2, topP: 0.55 })).toEqual([0]);
    expect(reachable(log(4, 3, 2, 1), { topP: 0.55 })).toEqual([0, 1]);
  });

  it('never draws a masked token', () => {
    expect(reachable([Number.NEGATIVE_INFINITY, 0, Number.NEGATIVE_INFINITY, 0], {})).toEqual([1, 3]);
  });

  it('treats each row by its own settings', () => {
    const tokens = ops.sample(ops.tensor(Float32Array.of(0, 0, 0, 0), 2, 2, 'f32'), {
      temperature: Float32Array.of(0, 1),
      topK: Int32Array.of(0, 0),
      topP: Float32Array.of(1, 1),
      minP: Float32Array.of(0, 0),
      uniform: Float64Array.of(0.9, 0.9),
    });
    expect([...tokens.read()]).toEqual([0, 1]);
  });

  it('always draws a token of the row that its own filters keep', () => {
    const logits = fc.array(fc.float({ min: -30, max: 30, noNaN: true }), { minLength: 1, maxLength: 40 });
    const unit = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
    fc.assert(
      fc.property(logits, fc.nat(40), unit, unit, unit, (values, topK, topP, minP, uniform) => {
        const token = sample(values, { topK, topP: Math.max(topP, 1e-9), minP, uniform });
        const sorted = [...values].sort((a, b) => b - a);
        expect(values[token]).toBeDefined();
        if (topK > 0)
          expect(values[token]).toBeGreaterThanOrEqual(sorted[Math.min(topK, values.length) - 1]!);
        expect(Math.exp(values[token]! - sorted[0]!)).toBeGreaterThanOrEqual(Math.fround(minP));
      }),
    );
  });

  it('refuses settings for another number of rows', () => {
    const one = Float32Array.of(1);
    const settings = {
      temperature: one,
      topK: Int32Array.of(0),
      topP: one,
      minP: one,
      uniform: Float64Array.of(0),
    };
    const logits = ops.tensor(new Float32Array(4), 2, 2, 'f32');
    expect(() => ops.sample(logits, settings)).toThrow(ShapeError);
  });
});
