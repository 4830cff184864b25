// What a backend keeps of a file once it has loaded it, and what it refuses to load.

import { spawnSync } from 'node:child_process';
import { readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { ModelLoadError } from '../../src/errors.ts';
import type { StorageDType, WeightFormat } from '../../src/ops/dtype.ts';
import type { Ops } from '../../src/ops/ops.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { plainPart, type TensorSource } from '../../src/ops/weights.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import { describeEachIsa, formats, openCpu, Random } from './native-backends.ts';

const folder = new WeightFolder();
afterAll(() => folder.remove());

const STORED: readonly StorageDType[] = ['f32', 'f16', 'bf16'];

function numbersWith(count: number, place: number, value: number): Float32Array {
  const values = new Random(1).floats(count);
  values[place] = value;
  return values;
}

function describeLoading(ops: Ops): void {
  const rowsOf = (source: TensorSource, format: WeightFormat, damage: () => void): Float32Array => {
    const table = ops.loadLinear([plainPart(source)], format);
    damage();
    const ids = Int32Array.from({ length: source.shape[0]! }, (_, row) => row);
    return ops.scope(() => ops.read(ops.embedding({ ids, sampled: null }, table)));
  };

  it.each(STORED)('serves %s weights whose file is written over or cut off later', (stored) => {
    for (const format of formats) {
      const source = folder.write([33, 40], new Random(2).floats(33 * 40), stored);
      const expected = rowsOf(source, format, () => {});
      const { length } = readFileSync(source.path);
      expect(rowsOf(source, format, () => writeFileSync(source.path, Buffer.alloc(length)))).toEqual(
        expected,
      );
      const other = folder.write([33, 40], new Random(2).floats(33 * 40), stored);
      expect(rowsOf(other, format, () => truncateSync(other.path, 0))).toEqual(expected);
    }
  });

  it.each(STORED)('refuses %s weights that are NaN or infinite, by name and place', (stored) => {
    for (const value of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
      const weight = folder.write([40, 17], numbersWith(40 * 17, 35 * 17 + 16, value), stored);
      const sound = folder.write([40, 17], new Random(3).floats(40 * 17), stored);
      const place = `tensor ${weight.name} of ${weight.path} is not finite at [35, 16]`;
      for (const format of formats) {
        expect(() => ops.loadLinear([plainPart(sound), plainPart(weight)], format)).toThrow(ModelLoadError);
        expect(() => ops.loadLinear([plainPart(sound), plainPart(weight)], format)).toThrow(place);
        expect(() => ops.loadGateUp(plainPart(sound), plainPart(weight), format)).toThrow(place);
      }
    }
  });

  it('refuses biases and vectors that are NaN or infinite', () => {
    const sound = folder.write([20, 8], new Random(4).floats(160));
    const bias = folder.write([20], numbersWith(20, 19, Number.NaN), 'bf16');
    expect(() => ops.loadLinear([plainPart(sound, bias)], 'f32')).toThrow(
      `${bias.path} is not finite at [19]`,
    );
    expect(() => ops.loadVector(bias)).toThrow(`${bias.path} is not finite at [19]`);
  });

  it('refuses a weight that is too large for the format to compute in', () => {
    const weight = folder.write([2, 3], [1, 2, 3, 4, 3.4e38, 6]);
    expect(() => ops.loadLinear([plainPart(weight)], 'bf16')).toThrow('is not finite at [1, 1]');
    expect(() => ops.loadLinear([plainPart(weight)], 'f32')).not.toThrow();
  });

  it('refuses a pipe at once instead of waiting for somebody to write into it', () => {
    const path = join(folder.path, `pipe-${ops.isa}`);
    expect(spawnSync('mkfifo', [path]).status).toBe(0);
    const source = { ...folder.write([2, 2], [1, 2, 3, 4]), path };
    expect(() => ops.loadLinear([plainPart(source)], 'f32')).toThrow(ModelLoadError);
    expect(() => ops.loadVector({ ...folder.write([4], [1, 2, 3, 4]), path })).toThrow(path);
  });
}

describe('loading on the reference backend', () => describeLoading(new ReferenceOps()));

describeEachIsa('loading', (isa) => {
  const cpu = openCpu(isa);
  afterAll(() => cpu.close());
  describeLoading(cpu);
});
