import { afterAll, describe, expect, it } from 'vitest';
import { ModelLoadError, ShapeError } from '../../../src/errors.ts';
import { ReferenceOps } from '../../../src/ops/reference/reference-ops.ts';
import { plainPart } from '../../../src/ops/weights.ts';
import { WeightFolder } from '../../helpers/weight-file.ts';

const ops = new ReferenceOps();
const folder = new WeightFolder();
afterAll(() => folder.remove());

const part = (shape: number[], values: number[], bias: number[] | null = null) =>
  plainPart(folder.write(shape, values), bias && folder.write([bias.length], bias));

describe('linear', () => {
  it('multiplies by the transposed weight and adds the bias', () => {
    const weight = ops.loadLinear([part([2, 3], [1, 2, 3, -1, 0, 1], [10, 20])], 'f32');
    const x = ops.tensor(Float32Array.of(1, 1, 1, 2, 0, -1), 2, 3, 'f32');
    expect([...ops.read(ops.linear(x, weight))]).toEqual([16, 20, 9, 17]);
  });

  it('puts several parts side by side, with zero for the bias that one lacks', () => {
    const weight = ops.loadLinear([part([1, 2], [1, 1]), part([2, 2], [2, 0, 0, 3], [5, 6])], 'f32');
    expect([weight.n, weight.k]).toEqual([3, 2]);
    const x = ops.tensor(Float32Array.of(1, 2), 1, 2, 'f32');
    expect([...ops.read(ops.linear(x, weight))]).toEqual([3, 7, 12]);
  });

  it('rounds an f32 weight to bf16, and not the bias', () => {
    const weight = ops.loadLinear([part([1, 1], [1 + 2 ** -9], [2 ** -9])], 'bf16');
    const x = ops.tensor(Float32Array.of(1), 1, 1, 'bf16');
    expect([...ops.read(ops.linear(x, weight))]).toEqual([1 + 2 ** -9]);
  });

  it('reads f16 and bf16 weights as the numbers that they are', () => {
    for (const dtype of ['f16', 'bf16'] as const) {
      const weight = ops.loadLinear([plainPart(folder.write([1, 2], [1.5, -0.25], dtype))], 'f32');
      const x = ops.tensor(Float32Array.of(1, 1), 1, 2, 'f32');
      expect([...ops.read(ops.linear(x, weight))]).toEqual([1.25]);
    }
  });

  it('gives a row the same bits alone and among others', () => {
    const values = Array.from({ length: 7 * 13 }, (_, i) => Math.sin(i * 1.7));
    const weight = ops.loadLinear([part([7, 13], values)], 'f32');
    const rows = Float32Array.from({ length: 5 * 13 }, (_, i) => Math.cos(i * 0.3));
    const together = ops.read(ops.linear(ops.tensor(rows, 5, 13, 'f32'), weight));
    for (let row = 0; row < 5; row++) {
      const alone = ops.tensor(rows.slice(row * 13, (row + 1) * 13), 1, 13, 'f32');
      expect(ops.read(ops.linear(alone, weight))).toEqual(together.slice(row * 7, (row + 1) * 7));
    }
  });

  it('refuses an input of another width or dtype', () => {
    const weight = ops.loadLinear([part([1, 2], [1, 1])], 'f32');
    const wide = ops.tensor(new Float32Array(3), 1, 3, 'f32');
    expect(() => ops.linear(wide, weight)).toThrow(
      new ShapeError('linear', 'x [any, 2] f32', '[1, 3] f32').message,
    );
    const other = ops.tensor(new Float32Array(2), 1, 2, 'bf16');
    expect(() => ops.linear(other, weight)).toThrow(ShapeError);
  });

  it('refuses parts of different widths, and a bias that does not fit', () => {
    expect(() => ops.loadLinear([part([1, 2], [1, 1]), part([1, 1], [1])], 'f32')).toThrow(/\[n, 2\]/);
    expect(() => ops.loadLinear([part([1, 2], [1, 1], [1, 2])], 'f32')).toThrow(/\[1\]/);
  });

  it('names the file and the tensor when the file ends too early', () => {
    const weight = folder.write([1, 2], [1, 2]);
    const cut = { ...weight, byteOffset: weight.byteOffset + 4 };
    const load = () => ops.loadLinear([plainPart(cut)], 'f32');
    expect(load).toThrow(ModelLoadError);
    expect(load).toThrow(`${cut.path} ends inside tensor ${cut.name}: 8 bytes expected, 4 found`);
  });
});

describe('addLinear', () => {
  it('adds to the residual in place, through a view as well', () => {
    const weight = ops.loadLinear([part([1, 1], [2], [1])], 'f32');
    const both = ops.tensor(Float32Array.of(10, 1, 20, 2), 2, 2, 'f32');
    const [residual, x] = ops.split(both, [1, 1]);
    ops.addLinear(residual!, x!, weight);
    expect([...ops.read(both)]).toEqual([13, 1, 25, 2]);
  });
});

describe('gateUp', () => {
  it('multiplies silu of the gate by the up projection, biases included', () => {
    const weight = ops.loadGateUp(part([1, 1], [1], [1]), part([1, 1], [3], [-1]), 'f32');
    const x = ops.tensor(Float32Array.of(1), 1, 1, 'f32');
    expect(ops.read(ops.gateUp(x, weight, 'silu'))[0]).toBeCloseTo((2 / (1 + Math.exp(-2))) * 2, 6);
  });

  it('gives bf16 for a bf16 weight', () => {
    const weight = ops.loadGateUp(part([1, 1], [1]), part([1, 1], [1]), 'bf16');
    const out = ops.gateUp(ops.tensor(Float32Array.of(1.1), 1, 1, 'bf16'), weight, 'silu');
    expect(out.dtype).toBe('bf16');
    const value = ops.read(out)[0]!;
    expect(ops.read(ops.tensor(Float32Array.of(value), 1, 1, 'bf16'))[0]).toBe(value);
  });

  it('refuses gate and up of different shapes', () => {
    expect(() => ops.loadGateUp(part([1, 1], [1]), part([2, 1], [1, 1]), 'f32')).toThrow(ShapeError);
  });
});

describe('embedding', () => {
  it('gives the rows of the table in f32, whatever they are stored in', () => {
    for (const dtype of ['f32', 'f16', 'bf16'] as const) {
      const table = ops.loadLinear([plainPart(folder.write([3, 2], [1, 2, 3, 4, 5, 6], dtype))], 'f32');
      expect([...ops.read(ops.embedding({ ids: Int32Array.of(2, 0), sampled: null }, table))]).toEqual([
        5, 6, 1, 2,
      ]);
    }
  });

  it('refuses an id that is not in the vocabulary', () => {
    const table = ops.loadLinear([plainPart(folder.write([3, 1], [1, 2, 3]))], 'f32');
    expect(() => ops.embedding({ ids: Int32Array.of(0, 3), sampled: null }, table)).toThrow(
      /ids from 0 to 2, got 3 in row 1/,
    );
    expect(() => ops.embedding({ ids: Int32Array.of(-1), sampled: null }, table)).toThrow(ShapeError);
  });
});
