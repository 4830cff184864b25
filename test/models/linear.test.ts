// The products of a layer, whole and as ranks would share them: over ranges of rows and of columns.

import { afterAll, describe, expect, it } from 'vitest';
import { ColumnParallelLinear, GateUpLinear, RowParallelLinear } from '../../src/models/layers/linear.ts';
import { narrow, plainPart } from '../../src/ops/weights.ts';
import { availableBackends, openBackend } from '../helpers/backends.ts';
import { WeightFolder } from '../helpers/weight-file.ts';

const folder = new WeightFolder();
afterAll(() => folder.remove());

const [TOKENS, HIDDEN, WIDTH] = [3, 48, 80];
const wave = (count: number, step: number) =>
  Float32Array.from({ length: count }, (_, i) => Math.sin(i * step));
const columns = folder.write([WIDTH, HIDDEN], wave(WIDTH * HIDDEN, 0.7), 'bf16');
const otherColumns = folder.write([WIDTH, HIDDEN], wave(WIDTH * HIDDEN, 1.3), 'bf16');
const bias = folder.write([WIDTH], wave(WIDTH, 0.2), 'bf16');
const rows = folder.write([HIDDEN, WIDTH], wave(HIDDEN * WIDTH, 0.4), 'bf16');
const HALF = WIDTH / 2;

describe.each(availableBackends)('on the %s backend', (backend) => {
  const ops = openBackend(backend);
  afterAll(() => ops.close());

  describe.each(['f32', 'bf16'] as const)('in %s', (dtype) => {
    const input = (cols: number) => ops.tensor(wave(TOKENS * cols, 0.9), TOKENS, cols, dtype);
    const column = (...parts: ReturnType<typeof plainPart>[]) =>
      new ColumnParallelLinear(ops.loadLinear(parts, dtype));

    it('each product wants its input in the format that its weight is computed in', () => {
      const gateUp = new GateUpLinear(
        ops.loadGateUp(plainPart(columns), plainPart(otherColumns), dtype),
        'silu',
      );
      for (const linear of [column(plainPart(columns)), gateUp]) expect(linear.inputDType).toBe(dtype);
    });

    it('column-parallel halves give the columns of the whole, bit for bit', () => {
      ops.scope(() => {
        const h = input(HIDDEN);
        const whole = ops.read(column(plainPart(columns, bias)).apply({ ops }, h));
        for (const start of [0, HALF]) {
          const part = plainPart(narrow(columns, 0, start, HALF), narrow(bias, 0, start, HALF));
          expect(ops.read(column(part).apply({ ops }, h))).toEqual(columnsOf(whole, WIDTH, start, HALF));
        }
      });
    });

    it('gate-and-up halves give the columns of the whole, bit for bit', () => {
      const gateUp = (start: number, length: number) => {
        const [gate, up] = [columns, otherColumns].map((one) => plainPart(narrow(one, 0, start, length)));
        return new GateUpLinear(ops.loadGateUp(gate!, up!, dtype), 'silu');
      };
      ops.scope(() => {
        const h = input(HIDDEN);
        const whole = ops.read(gateUp(0, WIDTH).apply({ ops }, h));
        for (const start of [0, HALF]) {
          expect(ops.read(gateUp(start, HALF).apply({ ops }, h))).toEqual(
            columnsOf(whole, WIDTH, start, HALF),
          );
        }
      });
    });

    it('row-parallel adds the whole product to the residual stream, and halves of it give its columns, bit for bit', () => {
      ops.scope(() => {
        const h = input(WIDTH);
        const before = wave(TOKENS * HIDDEN, 0.1);
        const added = (first: number, count: number) => {
          const part = plainPart(narrow(rows, 0, first, count));
          const widths = { inputs: [WIDTH], outputs: [count] };
          const x = ops.tensor(columnsOf(before, HIDDEN, first, count), TOKENS, count, 'f32');
          new RowParallelLinear(ops.loadLinear([part], dtype), null, widths).addTo(x, { ops }, h);
          return ops.read(x);
        };
        const whole = added(0, HIDDEN);
        const product = ops.read(column(plainPart(rows)).apply({ ops }, h));
        expectClose(
          whole,
          product.map((value, i) => value + before[i]!),
        );
        for (const start of [0, HIDDEN / 2])
          expect(added(start, HIDDEN / 2)).toEqual(columnsOf(whole, HIDDEN, start, HIDDEN / 2));
      });
    });
  });
});

function columnsOf(values: Float32Array, width: number, start: number, length: number): Float32Array {
  return values.filter((_, i) => i % width >= start && i % width < start + length);
}

function expectClose(actual: Float32Array, expected: Float32Array): void {
  expect(actual.length).toBe(expected.length);
  for (const [i, value] of expected.entries()) expect(actual[i]).toBeCloseTo(value, 4);
}
