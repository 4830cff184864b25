import { describe, expect, it } from 'vitest';
import { ShapeError } from '../../../src/errors.ts';
import { ReferenceOps } from '../../../src/ops/reference/reference-ops.ts';
import { beginStepAt } from '../steps.ts';

const ops = new ReferenceOps();
const tensor = (rows: number, cols: number, ...values: number[]) =>
  ops.tensor(Float32Array.from(values), rows, cols, 'f32');
const vector = (...values: number[]) => ops.makeVector(Float32Array.from(values));

describe('rmsNorm', () => {
  it('divides each row by its root mean square and multiplies by the weight', () => {
    const out = ops.rmsNorm(tensor(2, 2, 3, 4, 0, 0), vector(1, 2), 0, 'f32');
    const rms = Math.sqrt(12.5);
    const [a, b, c, d] = ops.read(out);
    expect([a, b]).toEqual([Math.fround(3 / rms), Math.fround(8 / rms)]);
    expect([c, d].every(Number.isNaN)).toBe(true);
  });

  it('keeps a row of zeros at zero with an eps', () => {
    expect([...ops.read(ops.rmsNorm(tensor(1, 2, 0, 0), vector(1, 1), 1e-6, 'bf16'))]).toEqual([0, 0]);
  });

  it('refuses a weight of another length', () => {
    expect(() => ops.rmsNorm(tensor(1, 2, 1, 1), vector(1), 0, 'f32')).toThrow(/weight \[2\], got \[1\]/);
  });
});

describe('qkNorm', () => {
  it('normalises each head by itself, in place, through a view', () => {
    const both = tensor(1, 5, 9, 3, 4, 0, 5);
    ops.qkNorm(ops.split(both, [1, 4])[1]!, vector(1, 1), 0);
    const rms = Math.sqrt(12.5);
    expect([...ops.read(both)]).toEqual([9, 3 / rms, 4 / rms, 0, 5 / rms].map(Math.fround));
  });

  it('refuses columns that are not whole heads', () => {
    expect(() => ops.qkNorm(tensor(1, 3, 1, 2, 3), vector(1, 1), 0)).toThrow(ShapeError);
  });
});

describe('headLayerNorm', () => {
  it('brings each head to mean 0 and variance 1, in place, and scales it by its own weight', () => {
    const both = tensor(1, 5, 9, 3, 5, 2, 0);
    ops.headLayerNorm(ops.split(both, [1, 4])[1]!, vector(1, 2, 3, 4), 2, 0);
    expect([...ops.read(both)]).toEqual([9, -1, 2, 3, -4]);
  });

  it('refuses columns that are not whole heads', () => {
    expect(() => ops.headLayerNorm(tensor(1, 3, 1, 2, 3), vector(1, 1, 1), 2, 0)).toThrow(ShapeError);
  });
});

describe('xielu', () => {
  it('is a square above 0 and an exponential below, each beside a line', () => {
    const factors = { positive: 2, negative: 3, linear: 0.5, least: -0.25 };
    const out = ops.read(ops.xielu(tensor(1, 4, 3, 0, -0.125, -2), factors, 'f32'));
    const below = (x: number, least = x) => Math.fround(3 * (Math.expm1(least) - x) + x / 2);
    expect([...out]).toEqual([19.5, below(0, -0.25), below(-0.125, -0.25), below(-2)]);
  });
});

describe('rope', () => {
  // Position 0 turns by nothing, position 1 by a quarter.
  const table = vector(1, 0, 0, 1);

  it('rotates the first half of a head against the second', () => {
    const x = tensor(2, 4, 1, 2, 3, 4, 1, 2, 3, 4);
    ops.rope(x, beginStepAt(ops, Int32Array.of(1, 0)), table, { headDim: 2 });
    expect([...ops.read(x)]).toEqual([-2, 1, -4, 3, 1, 2, 3, 4]);
  });

  it('refuses a position beyond the table', () => {
    const step = beginStepAt(ops, Int32Array.of(2));
    expect(() => ops.rope(tensor(1, 2, 1, 2), step, table, { headDim: 2 })).toThrow(/0 to 1, got 2 in row 0/);
  });
});

describe('split and gatherRows', () => {
  it('gives views that share the numbers', () => {
    const x = tensor(2, 3, 1, 2, 3, 4, 5, 6);
    const [left, right] = ops.split(x, [1, 2]);
    expect([...ops.read(left!)]).toEqual([1, 4]);
    expect([...ops.read(right!)]).toEqual([2, 3, 5, 6]);
  });

  it('refuses widths that do not fill the columns', () => {
    expect(() => ops.split(tensor(1, 3, 1, 2, 3), [1, 1])).toThrow(ShapeError);
  });

  it('gathers rows in the order asked for, also none', () => {
    const x = tensor(3, 2, 1, 2, 3, 4, 5, 6);
    expect([...ops.read(ops.gatherRows(x, Int32Array.of(2, 0, 2)))]).toEqual([5, 6, 1, 2, 5, 6]);
    expect(ops.gatherRows(x, new Int32Array(0)).rows).toBe(0);
    expect(() => ops.gatherRows(x, Int32Array.of(3))).toThrow(/rows from 0 to 2, got 3/);
  });
});

describe('scope', () => {
  it('gives back what the body gives, and frees the tensors made inside', () => {
    const outer = ops.scope(() => {
      const kept = tensor(1, 1, 7);
      const inner = ops.scope(() => tensor(1, 1, 8));
      expect(() => ops.read(inner)).toThrow(/freed/);
      expect([...ops.read(kept)]).toEqual([7]);
      return kept;
    });
    expect(() => ops.read(outer)).toThrow(ShapeError);
  });

  it('frees them when the body throws', () => {
    let made = tensor(1, 1, 0);
    const fail = () =>
      ops.scope(() => {
        made = tensor(1, 1, 1);
        throw new Error('broken');
      });
    expect(fail).toThrow('broken');
    expect(() => ops.read(made)).toThrow(/freed/);
  });

  it('keeps tensors across calls until it is closed, and closes what was opened inside it', () => {
    const outer = ops.openScope();
    const kept = tensor(1, 1, 7);
    ops.openScope();
    const inner = tensor(1, 1, 8);
    expect([...ops.read(kept), ...ops.read(inner)]).toEqual([7, 8]);
    outer.close();
    outer.close();
    expect(() => ops.read(kept)).toThrow(/freed/);
    expect(() => ops.read(inner)).toThrow(/freed/);
  });
});

describe('tensor', () => {
  it('rounds to bf16 and leaves the given numbers alone', () => {
    const values = Float32Array.of(1 + 2 ** -9);
    expect([...ops.read(ops.tensor(values, 1, 1, 'bf16'))]).toEqual([1]);
    expect(values[0]).toBe(1 + 2 ** -9);
  });

  it('refuses a wrong count of numbers', () => {
    expect(() => ops.tensor(new Float32Array(3), 2, 2, 'f32')).toThrow(/2 x 2 numbers, got 3/);
  });
});
