import { describe, expect, it } from 'vitest';
import { ReferenceOps } from '../../../src/ops/reference/reference-ops.ts';

const ops = new ReferenceOps();
const tensor = (rows: number, cols: number, ...values: number[]) =>
  ops.tensor(Float32Array.from(values), rows, cols, 'f32');
const vector = (...values: number[]) => ops.makeVector(Float32Array.from(values));

describe('streams', () => {
  it('scaleColumns gives each column its factor', () => {
    const scaled = ops.scaleColumns(tensor(2, 2, 1, 2, 3, 4), vector(10, -1), 'f32');
    expect([...ops.read(scaled)]).toEqual([10, -2, 30, -4]);
  });

  it('sparsify takes the mean and so many deviations of all numbers of a row off each, down to 0', () => {
    const x = tensor(2, 4, 1, 1, 1, 9, 2, 2, 4, 4);
    ops.sparsify(x, 1);
    // Means are 3, deviations sqrt(12) and 1.
    expect([...ops.read(x)]).toEqual([0, 0, 0, Math.fround(6 - Math.sqrt(12)), 0, 0, 0, 0]);
  });

  it('joinStreams keeps the first and gives the others its magnitude, none more than the least allows', () => {
    const joined = ops.joinStreams(tensor(1, 2, 3, -3), tensor(1, 4, 0, 2, 1e-3, 1e-3), 1);
    const [a, b, c, d, e, f] = ops.read(joined);
    expect([a, b, c, d]).toEqual([3, -3, 0, Math.fround((2 * 3) / Math.sqrt(2))]);
    expect([e, f]).toEqual([3e-3, 3e-3].map(Math.fround));
  });

  it('addMixed adds to each stream what its row of factors takes of each', () => {
    const x = tensor(1, 4, 1, 2, 10, 20);
    // f[0, 0] = 0 * 2, f[0, 1] = 1 * 2, f[1, 0] = -1 * 2, f[1, 1] = 0.5 * 2, each and 1.
    ops.addMixed(x, x, tensor(1, 1, 2), { width: 2, coefficients: vector(0, 1, -1, 0.5), offset: 1 });
    expect([...ops.read(x)]).toEqual([1 + 1 + 30, 2 + 2 + 60, 10 - 1 + 20, 20 - 2 + 40]);
  });
});
