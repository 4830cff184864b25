// Blocks of GGUF are loaded as the numbers that they mean, on every instruction set: as bfloat16, as codes, and as vectors.

import { afterAll, describe, expect, it } from 'vitest';
import { multipliesWholeCodes } from '../../src/config/cpu-isa.ts';
import { unpackBlocks } from '../../src/ops/block-formats.ts';
import { BLOCKS, type WeightFormat } from '../../src/ops/dtype.ts';
import type { Ops } from '../../src/ops/ops.ts';
import { type LinearPart, narrow, plainPart, type TensorSource } from '../../src/ops/weights.ts';
import { BLOCK_DTYPES, randomBlocks } from '../helpers/random-blocks.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import {
  BF16_ROUNDING,
  describeEachIsa,
  expectClose,
  openCpu,
  Random,
  takesUnrounded,
} from './native-backends.ts';

const folder = new WeightFolder();
afterAll(() => folder.remove());

const [N, K] = [37, 512];
const ROWS = [1, 3, 16, 17];

describeEachIsa('blocks', (isa) => {
  const cpu = openCpu(isa);
  afterAll(() => cpu.close());

  const products = (
    part: LinearPart,
    format: WeightFormat,
    x: Float32Array,
    rows: number,
  ): Float32Array[] => {
    const linear = cpu.loadLinear([part], format);
    const gateUp = cpu.loadGateUp(part, part, format);
    return cpu.scope(() => {
      const input = cpu.tensor(x, rows, linear.k, linear.inputDType);
      return [cpu.linear(input, linear), cpu.gateUp(input, gateUp, 'silu')].map((out) => cpu.read(out));
    });
  };

  describe.each(BLOCK_DTYPES)('of %s', (dtype) => {
    const random = new Random(3);
    const bytes = randomBlocks(dtype, N * K, () => random.next());
    const numbers = new Float32Array(N * K);
    unpackBlocks(dtype, bytes, numbers);
    const blocks = folder.writeBytes([N, K], bytes, dtype);
    const plain = folder.write([N, K], numbers);
    const formats: WeightFormat[] = ['f32', 'bf16', 'int8'];

    it.each(formats)('have the bits of their numbers in products as %s', (format) => {
      const x = random.floats(K);
      expect(products(plainPart(blocks), format, x, 1)).toEqual(products(plainPart(plain), format, x, 1));
    });

    it('can be read in part, where the part is whole blocks', () => {
      const x = random.floats(256);
      const part = (tensor: TensorSource) => plainPart(narrow(narrow(tensor, 1, 256, 256), 0, 5, 20));
      expect(products(part(blocks), 'bf16', x, 1)).toEqual(products(part(plain), 'bf16', x, 1));
      expect(() => products(plainPart(narrow(blocks, 1, 16, 256)), 'bf16', x, 1)).toThrow(/whole blocks/);
    });

    const part: LinearPart = { weight: { kind: 'blocks', format: dtype, tensor: blocks }, bias: null };

    it('have the bits of their numbers in products as codes, or are not rounded there, and as rows of a table', () => {
      const isUnrounded = takesUnrounded(isa, dtype);
      for (const rows of ROWS) {
        const x = random.floats(rows * K, 'bf16');
        const [sums, gated] = products(part, dtype, x, rows);
        const format = isUnrounded ? 'f32' : 'bf16';
        const [wantedSums, wantedGated] = products(plainPart(plain), format, x, rows);
        if (isUnrounded) {
          const size = Math.hypot(...wantedSums!) / Math.sqrt(wantedSums!.length);
          expectClose(sums!, wantedSums!, { absolute: size * 2 ** -15 });
          expectClose(gated!, wantedGated!, { absolute: size * size * 2 ** -13, relative: BF16_ROUNDING });
        } else {
          expect([sums, gated]).toEqual([wantedSums, wantedGated]);
        }
      }
      const ids = Int32Array.from({ length: N }, (_, row) => row);
      const rowsOf = (source: LinearPart, format: WeightFormat): Float32Array =>
        cpu.scope(() => cpu.read(cpu.embedding({ ids, sampled: null }, cpu.loadLinear([source], format))));
      // The codes of MXFP4 have a zero of either sign, its numbers one.
      const withoutSignOfZero = (values: Float32Array) => values.map((value) => value + 0);
      expect(withoutSignOfZero(rowsOf(part, dtype))).toEqual(
        withoutSignOfZero(rowsOf(plainPart(plain), 'bf16')),
      );
    });

    it('take the bytes of their codes', () => {
      const { numbers: perBlock, packedBytes, wideBytes } = BLOCKS[dtype];
      const bytes = multipliesWholeCodes(isa) ? packedBytes : wideBytes;
      // Whole panels of 16 columns.
      expect(cpu.loadLinear([part], dtype).byteLength).toBe(((48 * K) / perBlock) * bytes);
    });

    it.each([0, 0.999])('have the same sums in one row as in many where all bits are alike (%s)', (bits) => {
      const tensor = folder.writeBytes(
        [N, K],
        randomBlocks(dtype, N * K, () => bits),
        dtype,
      );
      const extreme: LinearPart = { ...part, weight: { kind: 'blocks', format: dtype, tensor } };
      // As large as fixed point takes it, and a few units of it now and then, which a sum in floats would lose.
      const x = Float32Array.from({ length: 16 * K }, () =>
        random.next() < 0.1 ? 2 ** -14 * Math.floor(random.next() * 8) : 1.9921875,
      );
      const [sums, gated] = products(extreme, dtype, x, 16);
      for (let row = 0; row < 16; row += 1) {
        const ofOne = products(extreme, dtype, x.subarray(row * K, (row + 1) * K), 1);
        const ofRow = [sums, gated].map((all) => all!.subarray(row * N, (row + 1) * N));
        expect(ofRow).toEqual(ofOne);
      }
    });
  });

  it('with a number that is not finite are refused by name and place', () => {
    const bytes = Buffer.from(randomBlocks('q8_0', 4 * 64, () => 0.5));
    // An infinite scale of the second block of row 2.
    bytes.writeUInt16LE(0x7c00, 34 * 5);
    const tensor = folder.writeBytes([4, 64], bytes, 'q8_0');
    const asCodes: LinearPart = { weight: { kind: 'blocks', format: 'q8_0', tensor }, bias: null };
    const message = new RegExp(`${tensor.name} of .* is not finite at \\[2, 32\\]`);
    expect(() => cpu.loadLinear([asCodes], 'q8_0')).toThrow(message);
    expect(() => cpu.loadLinear([plainPart(tensor)], 'bf16')).toThrow(message);
  });

  it('are put in order, rows and numbers of vectors alike, where the halves of each head take turns', () => {
    const [heads, headDim, k] = [3, 8, 64];
    const random = new Random(4);
    const rows = Array.from({ length: heads * headDim }, () => random.floats(k));
    // Row 2i + j of a head in the file is its row j * headDim / 2 + i.
    const stored = rows.map((_, at) => {
      const inHead = at % headDim;
      return rows[at - inHead + (inHead % 2) * (headDim / 2) + Math.floor(inHead / 2)]!;
    });
    const shape = [rows.length, k];
    const flat = (values: Float32Array[]) => values.flatMap((row) => [...row]);
    const [ordered, paired] = [flat(rows), flat(stored)].map((values) => folder.write(shape, values));
    const bias = folder.write(
      [rows.length],
      rows.map((row) => row[0]!),
    );
    const pairedBias = folder.write(
      [rows.length],
      stored.map((row) => row[0]!),
    );
    const x = random.floats(k);
    const compute = (ops: Ops, part: LinearPart) =>
      ops.scope(() => ops.read(ops.linear(ops.tensor(x, 1, k, 'f32'), ops.loadLinear([part], 'f32'))));
    const pairedRows = headDim;
    const part = plainPart({ ...paired!, pairedRows }, { ...pairedBias, pairedRows });
    expect(compute(cpu, part)).toEqual(compute(cpu, plainPart(ordered!, bias)));
    const inPart = (source: TensorSource) => plainPart(narrow(source, 0, 5, 14));
    expect(compute(cpu, inPart({ ...paired!, pairedRows }))).toEqual(compute(cpu, inPart(ordered!)));
  });
});
