// linear, addLinear and gateUp of the native backend against their definition.

import { afterAll, describe, expect, it } from 'vitest';
import type { ComputeDType, StorageDType } from '../../src/ops/dtype.ts';
import type { Ops } from '../../src/ops/ops.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { type LinearPart, narrow, plainPart, type TensorSource, wholeTensor } from '../../src/ops/weights.ts';
import { ternaryBlocks } from '../fixtures/ternary-blocks.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import {
  BF16_ROUNDING,
  describeEachIsa,
  dtypes,
  expectClose,
  openCpu,
  Random,
  sumTolerance,
} from './native-backends.ts';

const folder = new WeightFolder();
afterAll(() => folder.remove());

const STORED: readonly StorageDType[] = ['f32', 'f16', 'bf16'];

interface Case {
  readonly rows: number;
  readonly k: number;
  readonly sizes: readonly number[];
}

/** Corners of the tiles first: one row, whole tiles, one more, padding of k and n; then random ones. */
function casesOf(random: Random): Case[] {
  const corners = [
    { rows: 1, k: 1, sizes: [1] },
    { rows: 1, k: 64, sizes: [48, 16, 16] },
    { rows: 6, k: 31, sizes: [17] },
    { rows: 7, k: 33, sizes: [64, 5] },
    { rows: 13, k: 130, sizes: [33, 1, 14] },
    { rows: 16, k: 200, sizes: [70] },
    { rows: 17, k: 96, sizes: [31, 33] },
    { rows: 33, k: 160, sizes: [50] },
    { rows: 97, k: 40, sizes: [80, 9] },
    { rows: 200, k: 72, sizes: [40] },
    { rows: 40, k: 2700, sizes: [35] },
    { rows: 0, k: 8, sizes: [8] },
  ];
  const randoms = Array.from({ length: 12 }, () => ({
    rows: random.integer(1, 40),
    k: random.integer(1, 300),
    sizes: Array.from({ length: random.integer(1, 3) }, () => random.integer(1, 90)),
  }));
  return [...corners, ...randoms];
}

function makePart(random: Random, n: number, k: number): LinearPart {
  const stored = STORED[random.integer(0, 2)]!;
  const weight = folder.write([n, k], random.floats(n * k), stored);
  const hasBias = random.integer(0, 1) === 1;
  return plainPart(weight, hasBias ? folder.write([n], random.floats(n), stored) : null);
}

/** Numbers from -1 to 1, published in 2 bits, and a scale for each row. */
function makeTernary(random: Random, n: number, k: number): LinearPart {
  const planeRows = Math.ceil(n / 4);
  const codes = Uint8Array.from({ length: planeRows * k }, () =>
    [0, 2, 4, 6].reduce((byte, shift) => byte | (random.integer(0, 2) << shift), 0),
  );
  const bytes = folder.writeBytes([planeRows, k], codes, 'i8');
  const tensor = { ...wholeTensor({ ...bytes, shape: [4 * planeRows, k], planeRows }), shape: [n, k] };
  const scales = folder.write(
    [n, 1],
    random.floats(n).map((value) => Math.abs(value) + 0.01),
  );
  return { weight: { kind: 'int8', tensor, scales }, bias: folder.write([n], random.floats(n)) };
}

/** The same op on the native and on the reference backend. */
function both(cpu: Ops, compute: (ops: Ops) => Float32Array): [actual: Float32Array, expected: Float32Array] {
  const reference = new ReferenceOps();
  return [cpu.scope(() => compute(cpu)), reference.scope(() => compute(reference))];
}

/** x times a weight in int8, and the same added to numbers that are the same for all. */
function productAndSum(ops: Ops, x: Float32Array, rows: number, parts: readonly LinearPart[]): Float32Array {
  const weight = ops.loadLinear(parts, 'int8');
  const input = ops.tensor(x, rows, weight.k, 'bf16');
  const sum = ops.tensor(new Random(rows).floats(rows * weight.n), rows, weight.n, 'f32');
  ops.addLinear(sum, input, weight);
  return Float32Array.from([...ops.read(ops.linear(input, weight)), ...ops.read(sum)]);
}

describeEachIsa('matrix products', (isa) => {
  describe('in int8', () => {
    const cpu = openCpu(isa);
    afterAll(() => cpu.close());

    it('linear and addLinear have the bits of their definition', () => {
      const random = new Random(7);
      for (const { rows, k, sizes } of casesOf(random)) {
        const parts = sizes.map((n) => makePart(random, n, k));
        const x = random.floats(rows * k);
        const [actual, expected] = both(cpu, (ops) => productAndSum(ops, x, rows, parts));
        expect(actual).toEqual(expected);
      }
    });

    it('gateUp multiplies silu of the gate with up', () => {
      const random = new Random(8);
      for (const { rows, k, sizes } of casesOf(random)) {
        const [gate, up] = [makePart(random, sizes[0]!, k), makePart(random, sizes[0]!, k)];
        const x = random.floats(rows * k);
        const [actual, expected] = both(cpu, (ops) =>
          ops.read(ops.gateUp(ops.tensor(x, rows, k, 'bf16'), ops.loadGateUp(gate, up, 'int8'), 'silu')),
        );
        expectClose(actual, expected, { absolute: 1e-5, relative: BF16_ROUNDING });
      }
    });

    it('rows of zeros, of tiny and of huge numbers have the bits of their definition', () => {
      const k = 70;
      const random = new Random(9);
      const part = makePart(random, 20, k);
      for (const size of [0, 2 ** -133, 127 * 2 ** -126, 2 ** -119, 3e38]) {
        const x = random.floats(3 * k).map((value) => value * size);
        const [actual, expected] = both(cpu, (ops) =>
          ops.read(ops.linear(ops.tensor(x, 3, k, 'bf16'), ops.loadLinear([part], 'int8'))),
        );
        expect(actual).toEqual(expected);
      }
    });

    it.each([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])(
      'a row with %s is NaN, the rows beside it are as without it',
      (value) => {
        const k = 33;
        const random = new Random(10);
        const part = makePart(random, 20, k);
        const x = random.floats(3 * k);
        const compute = (ops: Ops, numbers: Float32Array) =>
          ops.scope(() =>
            ops.read(ops.linear(ops.tensor(numbers, 3, k, 'bf16'), ops.loadLinear([part], 'int8'))),
          );
        const expected = compute(cpu, x);
        x[k + 32] = value;
        const actual = compute(cpu, x);
        expect(actual.subarray(20, 40).every(Number.isNaN)).toBe(true);
        expect([...actual.subarray(0, 20), ...actual.subarray(40)]).toEqual([
          ...expected.subarray(0, 20),
          ...expected.subarray(40),
        ]);
      },
    );

    it('those of numbers in 2 bits have the bits of their definition, in a quarter of the bytes', () => {
      const random = new Random(11);
      for (const { rows, k, sizes } of casesOf(random)) {
        const parts = sizes.map((n) => makeTernary(random, n, k));
        const x = random.floats(rows * k);
        const [actual, expected] = both(cpu, (ops) => productAndSum(ops, x, rows, parts));
        expect(actual).toEqual(expected);
        const [gated, wanted] = both(cpu, (ops) => {
          const weight = ops.loadGateUp(parts[0]!, parts[0]!, 'int8');
          return ops.read(ops.gateUp(ops.tensor(x, rows, k, 'bf16'), weight, 'relu2'));
        });
        expectClose(gated, wanted, { absolute: 1e-5, relative: BF16_ROUNDING });
      }
      expect(cpu.loadLinear([makeTernary(random, 32, 64)], 'int8').byteLength).toBe((32 * 64) / 4);
    });

    it.each(['tq1_0', 'tq2_0', 'i2_s'] as const)(
      'those of blocks of %s have the bits of their numbers',
      (dtype) => {
        const random = new Random(13);
        const [n, k] = [52, 512];
        const numbers = Float32Array.from({ length: n * k }, () => random.integer(-1, 1));
        const scales = folder.write([n, 1], new Float32Array(n).fill(0.375));
        const blocks = folder.writeBytes([n, k], ternaryBlocks(dtype, numbers, 0.375), dtype);
        const whole = folder.writeBytes([n, k], new Uint8Array(Int8Array.from(numbers).buffer), 'i8');
        const cut = (tensor: TensorSource): TensorSource => narrow(narrow(tensor, 1, 256, 256), 0, 5, 24);
        const paired = (tensor: TensorSource): TensorSource => ({ ...tensor, pairedRows: 4 });
        for (const of of [(tensor: TensorSource) => tensor, paired, cut]) {
          const [x, rows] = [random.floats(3 * of(whole).shape[1]!), of(whole).shape[0]!];
          const compute = (ops: Ops, tensor: TensorSource): Float32Array => {
            const part: LinearPart = {
              weight: { kind: 'int8', tensor, scales: narrow(scales, 0, 0, rows) },
              bias: null,
            };
            const weight = ops.loadLinear([part], 'int8');
            return ops.read(ops.linear(ops.tensor(x, 3, weight.k, 'bf16'), weight));
          };
          const [actual, expected] = both(cpu, (ops) => compute(ops, of(blocks)));
          expect(actual).toEqual(expected);
          expect(actual).toEqual(cpu.scope(() => compute(cpu, of(whole))));
        }
        const part: LinearPart = { weight: { kind: 'int8', tensor: blocks, scales }, bias: null };
        expect(cpu.loadLinear([part], 'int8').byteLength).toBe((64 * k) / 4);
      },
    );

    it('rows of numbers in 2 bits are those that were published', () => {
      const table = makeTernary(new Random(12), 37, 90);
      const [actual, expected] = both(cpu, (ops) => {
        const weight = ops.loadLinear([table], 'int8');
        return ops.read(
          ops.embedding({ ids: Int32Array.from({ length: 37 }, (_, i) => i), sampled: null }, weight),
        );
      });
      expect(actual).toEqual(expected);
    });

    it('weights tell the bytes that one use streams: one a number', () => {
      expect(cpu.loadLinear([makePart(new Random(6), 32, 64)], 'int8').byteLength).toBe(32 * 64);
    });

    it('a k whose sums could leave 32 bits is refused', () => {
      const load = () =>
        cpu.loadLinear([plainPart(folder.write([1, 65_537], new Float32Array(65_537)))], 'int8');
      expect(load).toThrow(/k up to 65536 for int8/);
    });
  });

  describe.each(dtypes)('in %s', (dtype: ComputeDType) => {
    const cpu = openCpu(isa);
    afterAll(() => cpu.close());

    it('linear multiplies by weights of several parts, formats and biases', () => {
      const random = new Random(1);
      for (const { rows, k, sizes } of casesOf(random)) {
        const parts = sizes.map((n) => makePart(random, n, k));
        const x = random.floats(rows * k);
        const [actual, expected] = both(cpu, (ops) =>
          ops.read(ops.linear(ops.tensor(x, rows, k, dtype), ops.loadLinear(parts, dtype))),
        );
        expectClose(actual, expected, sumTolerance(k));
      }
    });

    it('addLinear adds to what is there', () => {
      const random = new Random(2);
      for (const { rows, k, sizes } of casesOf(random)) {
        const part = makePart(random, sizes[0]!, k);
        const x = random.floats(rows * k);
        const before = random.floats(rows * sizes[0]!);
        const [actual, expected] = both(cpu, (ops) => {
          const residual = ops.tensor(before, rows, sizes[0]!, 'f32');
          ops.addLinear(residual, ops.tensor(x, rows, k, dtype), ops.loadLinear([part], dtype));
          return ops.read(residual);
        });
        expectClose(actual, expected, sumTolerance(k + 1));
      }
    });

    it('gateUp multiplies silu of the gate with up', () => {
      const random = new Random(3);
      for (const { rows, k, sizes } of casesOf(random)) {
        const [gate, up] = [makePart(random, sizes[0]!, k), makePart(random, sizes[0]!, k)];
        const x = random.floats(rows * k);
        const [actual, expected] = both(cpu, (ops) =>
          ops.read(ops.gateUp(ops.tensor(x, rows, k, dtype), ops.loadGateUp(gate, up, dtype), 'silu')),
        );
        // Either factor may be as large as sqrt(k) or so; the other one's error is multiplied by it.
        const { absolute } = sumTolerance(k);
        const relative = dtype === 'bf16' ? BF16_ROUNDING : 1e-6;
        expectClose(actual, expected, { absolute: absolute * (2 + Math.sqrt(k)), relative });
      }
    });

    it('the output of one product is the input of the next, whatever its width', () => {
      const random = new Random(4);
      for (const [rows, k, middle, n] of [
        [3, 40, 24, 10],
        [20, 48, 41, 33],
      ] as const) {
        const [gate, up, down] = [
          makePart(random, middle, k),
          makePart(random, middle, k),
          makePart(random, n, middle),
        ];
        const x = random.floats(rows * k);
        // Numbers left behind by an earlier scope must not leak in through the padding.
        cpu.scope(() => cpu.tensor(new Float32Array(4096).fill(Number.NaN), 64, 64, dtype));
        const [actual, expected] = both(cpu, (ops) => {
          const hidden = ops.gateUp(ops.tensor(x, rows, k, dtype), ops.loadGateUp(gate, up, dtype), 'silu');
          return ops.read(ops.linear(hidden, ops.loadLinear([down], dtype)));
        });
        const rounding = dtype === 'bf16' ? BF16_ROUNDING * 16 : 1e-3;
        expectClose(actual, expected, { absolute: rounding * Math.sqrt(middle), relative: rounding });
      }
    });

    it('a view that ends inside its rows is multiplied without its neighbours', () => {
      const random = new Random(5);
      const part = makePart(random, 12, 10);
      const values = random.floats(4 * 30).map((value, i) => (i % 30 < 10 ? value : Number.NaN));
      const [actual, expected] = both(cpu, (ops) => {
        const [view] = ops.split(ops.tensor(values, 4, 30, dtype), [10, 20]);
        return ops.read(ops.linear(view!, ops.loadLinear([part], dtype)));
      });
      expectClose(actual, expected, sumTolerance(10));
    });

    it('weights tell the bytes that one use streams', () => {
      const weight = cpu.loadLinear([makePart(new Random(6), 32, 64)], dtype);
      expect(weight.byteLength).toBe(32 * 64 * (dtype === 'bf16' ? 2 : 4));
    });
  });
});
