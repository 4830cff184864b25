// Weights of codes have the bits of the numbers that they encode, on every instruction set.

import { afterAll, describe, expect, it } from 'vitest';
import { type CodeFormat, formatName } from '../../src/ops/dtype.ts';
import type { Ops } from '../../src/ops/ops.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { type CodesWeightSource, type LinearPart, plainPart } from '../../src/ops/weights.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import { describeEachIsa, openCpu, Random } from './native-backends.ts';

const folder = new WeightFolder();
afterAll(() => folder.remove());

const FORMATS: readonly CodeFormat[] = [
  ...[32, 64, 128, null].map((groupSize) => ({ kind: 'int4', groupSize, hasZeros: false }) as const),
  { kind: 'int4', groupSize: 32, hasZeros: true },
  { kind: 'int4', groupSize: 128, hasZeros: true },
  { kind: 'int8', groupSize: null, hasZeros: false },
  { kind: 'int8', groupSize: 64, hasZeros: true },
  { kind: 'fp4', groupSize: 32, hasZeros: false },
  { kind: 'fp8', groupSize: null, hasZeros: false },
  { kind: 'fp8', groupSize: 128, hasZeros: false },
];

/** Codes of every value, in rows of bytes; those of 4 bits are in words. */
function randomCodes(random: Random, format: CodeFormat, n: number, k: number): CodesWeightSource {
  const { kind, groupSize, hasZeros } = format;
  const isOf4Bits = kind === 'int4' || kind === 'fp4';
  const [dtype, rowBytes] = isOf4Bits
    ? (['i32', Math.ceil(k / 8) * 4] as const)
    : ([kind === 'fp8' ? 'f8' : 'i8', k] as const);
  const bytes = Uint8Array.from({ length: n * rowBytes }, () => random.integer(0, 255));
  // Two codes of e4m3 are no numbers.
  if (kind === 'fp8') for (const [i, byte] of bytes.entries()) bytes[i] = byte % 128 === 127 ? 0 : byte;
  const groups = groupSize === null ? 1 : Math.ceil(k / groupSize);
  const scales = random.floats(n * groups).map((value) => Math.abs(value) + 0.01);
  const zeros = Uint8Array.from({ length: n * groups }, () =>
    random.integer(isOf4Bits ? -8 : -128, isOf4Bits ? 7 : 127),
  );
  return {
    kind: 'codes',
    format,
    shape: [n, k],
    tensor: folder.writeBytes([n, isOf4Bits ? rowBytes / 4 : k], bytes, dtype),
    order: 'rows',
    scales: { tensor: folder.write([n, groups], scales), isTransposed: false, outputs: 1 },
    zeros: hasZeros ? { order: 'plain', tensor: folder.writeBytes([n, groups], zeros, 'i8'), less: 0 } : null,
    inputGroups: null,
  };
}

/** The numbers that the codes encode, by their definition. */
function decoded(source: CodesWeightSource): LinearPart {
  const reference = new ReferenceOps();
  const [n] = source.shape;
  const table = reference.loadLinear([{ weight: source, bias: null }], source.format);
  const ids = Int32Array.from({ length: n }, (_, row) => row);
  const numbers = reference.scope(() => reference.read(reference.embedding({ ids, sampled: null }, table)));
  return plainPart(folder.write(source.shape, numbers));
}

const ROWS = [1, 3, 13, 16, 17, 60];

describeEachIsa('weights of codes', (isa) => {
  const cpu = openCpu(isa);
  afterAll(() => cpu.close());

  describe.each(FORMATS.map((format) => [formatName(format), format] as const))('of %s', (_, format) => {
    it('have the bits of the bfloat16 numbers that they encode in every product', () => {
      const random = new Random(1);
      for (const [k, sizes] of [
        [31, [7]],
        [300, [33, 48, 5]],
        [608, [20]],
      ] as const) {
        const codes = sizes.map((n) => randomCodes(random, format, n, k));
        const bias = folder.write([sizes[0]], random.floats(sizes[0]));
        const coded = codes.map((weight, i) => ({ weight, bias: i === 0 ? bias : null }));
        const plain = codes.map((weight, i) => ({ ...decoded(weight), bias: i === 0 ? bias : null }));
        const [asCodes, asNumbers] = [
          { linear: cpu.loadLinear(coded, format), gateUp: cpu.loadGateUp(coded[0]!, coded[0]!, format) },
          { linear: cpu.loadLinear(plain, 'bf16'), gateUp: cpu.loadGateUp(plain[0]!, plain[0]!, 'bf16') },
        ];
        for (const rows of ROWS) {
          const x = random.floats(rows * k);
          const compute = (ops: Ops, { linear, gateUp }: typeof asCodes): Float32Array[] =>
            ops.scope(() => {
              const input = ops.tensor(x, rows, k, 'bf16');
              const sum = ops.tensor(new Float32Array(rows * linear.n).fill(0.5), rows, linear.n, 'f32');
              ops.addLinear(sum, input, linear);
              return [ops.linear(input, linear), sum, ops.gateUp(input, gateUp, 'silu')].map((out) =>
                ops.read(out),
              );
            });
          expect(compute(cpu, asCodes)).toEqual(compute(cpu, asNumbers));
        }
      }
    });

    it('take about the bytes of their codes', () => {
      const { byteLength } = cpu.loadLinear(
        [{ weight: randomCodes(new Random(2), format, 64, 512), bias: null }],
        format,
      );
      const groups = format.groupSize === null ? 1 : 512 / format.groupSize;
      const bits = format.kind === 'int4' || format.kind === 'fp4' ? 4 : 8;
      expect(byteLength).toBe((64 * 512 * bits) / 8 + 64 * groups * 4 * (format.hasZeros ? 2 : 1));
    });
  });
});
