// Formats of weights, keys and values on the CUDA backend, over an emulated driver and its real kernels.

import { afterAll, expect, it } from 'vitest';
import { formatName, type KvDType, type WeightFormat } from '../../src/ops/dtype.ts';
import type { Ops } from '../../src/ops/ops.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import {
  type CodesWeightSource,
  type LinearPart,
  plainPart,
  type TensorSource,
} from '../../src/ops/weights.ts';
import { ternaryBlocks } from '../fixtures/ternary-blocks.ts';
import { describeCuda, needsCudaEmulators, openCuda } from '../helpers/cuda-emulator.ts';
import { LaunchedKernels } from '../helpers/launched-kernels.ts';
import { BLOCK_DTYPES, blocksAndNumbers, randomBlocks } from '../helpers/random-blocks.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import { attend, type Heads, makeSequences, storeTokens } from './attention-cases.ts';
import { codeFormats, expectClose, kvDTypes, Random, sumTolerance } from './native-backends.ts';
import { CODE_FORMATS, decoded, encoded, randomCodes } from './random-codes.ts';

const folder = new WeightFolder();
const launched = new LaunchedKernels();
afterAll(() => {
  folder.remove();
  launched.remove();
});

describeCuda('the CUDA backend', () => {
  const cuda = openCuda();
  const reference = new ReferenceOps();
  afterAll(() => cuda.close());

  function rowsOf(ops: Ops, part: LinearPart, format: WeightFormat): Float32Array {
    return ops.scope(() => {
      const table = ops.loadLinear([part], format);
      const ids = Int32Array.from({ length: table.n }, (_, row) => row);
      // Codes of floats have a zero of either sign.
      return ops.read(ops.embedding({ ids, sampled: null }, table)).map((value) => value + 0);
    });
  }

  /** Each product that there is of parts, the first of which is gate and up as well. */
  function products(ops: Ops, parts: readonly LinearPart[], format: WeightFormat, x: Float32Array) {
    return ops.scope(() => {
      const linear = ops.loadLinear(parts, format);
      const input = ops.tensor(x, x.length / linear.k, linear.k, linear.inputDType);
      const sum = ops.tensor(new Float32Array(input.rows * linear.n).fill(0.5), input.rows, linear.n, 'f32');
      ops.addLinear(sum, input, linear);
      const gated = ops.gateUp(input, ops.loadGateUp(parts[0]!, parts[0]!, format), 'silu');
      return [ops.linear(input, linear), sum, gated].map((out) => ops.read(out));
    });
  }

  it.each(CODE_FORMATS.map((format) => [formatName(format), format] as const))(
    'has in every product of codes of %s the bits of the numbers that they encode',
    (_, format) => {
      const random = new Random(1);
      for (const { rows, k, sizes } of [
        { rows: 1, k: 300, sizes: [33, 48, 5] },
        { rows: 9, k: 31, sizes: [70] },
        { rows: 17, k: 608, sizes: [20] },
        { rows: 66, k: 100, sizes: [9] },
      ]) {
        const codes = sizes.map((n) => randomCodes(folder, random, format, n, k));
        const bias = folder.write([sizes[0]!], random.floats(sizes[0]!));
        const partsOf = (make: (weight: CodesWeightSource) => LinearPart) =>
          codes.map((weight, i) => ({ ...make(weight), bias: i === 0 ? bias : null }));
        const coded = partsOf((weight) => ({ weight, bias: null }));
        const plain = partsOf((weight) => decoded(folder, weight));
        const x = random.floats(rows * k);
        expect(products(cuda, coded, format, x)).toEqual(products(cuda, plain, 'bf16', x));
        expect(rowsOf(cuda, coded[0]!, format)).toEqual(rowsOf(reference, plain[0]!, 'bf16'));
      }
    },
  );

  it.each(BLOCK_DTYPES)('has in every product of blocks of %s the bits of their numbers', (dtype) => {
    const [n, k, rows] = [37, 512, 3];
    const random = new Random(2);
    const { blocks, numbers } = blocksAndNumbers(folder, random, dtype, n, k);
    const x = random.floats(rows * k);
    expect(products(cuda, [blocks], dtype, x)).toEqual(products(cuda, [numbers], 'bf16', x));
    expect(rowsOf(cuda, blocks, dtype)).toEqual(rowsOf(reference, numbers, 'bf16'));
  });

  it.each(['tq1_0', 'tq2_0', 'i2_s'] as const)(
    'has in every product of blocks of %s with one scale the bits of their numbers',
    (dtype) => {
      const [n, k, rows] = [37, 512, 3];
      const random = new Random(2);
      const numbers = Float32Array.from({ length: n * k }, () => random.integer(-1, 1));
      const scales = folder.write([n, 1], new Float32Array(n).fill(0.375));
      const partOf = (tensor: TensorSource): LinearPart => ({
        weight: { kind: 'int8', tensor, scales },
        bias: null,
      });
      const coded = partOf(folder.writeBytes([n, k], ternaryBlocks(dtype, numbers, 0.375), dtype));
      const bytes = new Uint8Array(Int8Array.from(numbers).buffer);
      const whole = partOf(folder.writeBytes([n, k], bytes, 'i8'));
      const x = random.floats(rows * k);
      expect(products(cuda, [coded], 'int8', x)).toEqual(products(cuda, [whole], 'int8', x));
      expect(rowsOf(cuda, coded, 'int8')).toEqual(rowsOf(reference, whole, 'int8'));
    },
  );

  it('brings weights to the GPU that are larger than what is on its way at once, and goes on after one that is not finite', () => {
    const [n, k] = [9000, 512];
    // Each row begins with its number.
    const numbers = new Float32Array(n * k).fill(0.25);
    for (let row = 0; row < n; row += 1) numbers.set([row % 128, row >> 7], row * k);
    const ids = Int32Array.from({ length: 90 }, (_, i) => n - 1 - 100 * i);
    const expected = Array.from(ids).flatMap((row) => [row % 128, row >> 7, 0.25]);
    const slow = cuda.loadLinear([plainPart(folder.write([512, k], new Float32Array(512 * k)))], 'bf16');
    const beginnings = () =>
      cuda.scope(() => {
        // Copies wait for it, and what is filled next must wait for them.
        cuda.linear(cuda.tensor(new Float32Array(256 * k), 256, k, 'bf16'), slow);
        const table = cuda.loadLinear([plainPart(folder.write([n, k], numbers))], 'bf16');
        const rows = cuda.read(cuda.embedding({ ids, sampled: null }, table));
        return Array.from(ids).flatMap((_, i) => [...rows.subarray(i * k, i * k + 3)]);
      });
    expect(beginnings()).toEqual(expected);
    numbers[8999 * k + 7] = Number.NaN;
    expect(beginnings).toThrow(/NaN.*8999|8999.*NaN/);
    numbers[8999 * k + 7] = 0.25;
    expect(beginnings()).toEqual(expected);
  });

  it('brings inputs into the order of codes whose groups are of columns anywhere', () => {
    const [n, k, rows] = [20, 96, 3];
    const random = new Random(3);
    const format = { kind: 'int4', groupSize: 32, hasZeros: true } as const;
    const groups = Int32Array.from(random.permutation(k), (place) => Math.floor(place / 32));
    const inputGroups = folder.writeBytes([k], new Uint8Array(groups.buffer), 'i32');
    const part: LinearPart = {
      weight: { ...randomCodes(folder, random, format, n, k), inputGroups },
      bias: null,
    };
    const x = random.floats(rows * k);
    const compute = (ops: Ops) =>
      ops.scope(() => ops.read(ops.linear(ops.tensor(x, rows, k, 'bf16'), ops.loadLinear([part], format))));
    expectClose(compute(cuda), compute(reference), sumTolerance(16 * k));
    expect(rowsOf(cuda, part, format)).toEqual(rowsOf(reference, part, format));
  });

  it.each(codeFormats.map((format) => [formatName(format), format] as const))(
    'quantises numbers to %s as its definition does',
    (_, format) => {
      const part = plainPart(folder.write([37, 140], new Random(4).floats(37 * 140)));
      expectClose(rowsOf(cuda, part, format), rowsOf(reference, part, format), { absolute: 2 ** -9 });
    },
  );

  it('has in int8 the bits of the definition', () => {
    const random = new Random(5);
    for (const { rows, k, n } of [
      { rows: 1, k: 33, n: 7 },
      { rows: 3, k: 1100, n: 70 },
      { rows: 70, k: 64, n: 20 },
    ]) {
      const part = plainPart(folder.write([n, k], random.floats(n * k)), folder.write([n], random.floats(n)));
      const x = random.floats(rows * k);
      // A row that counts as zero.
      x.fill(2 ** -133, 0, rows > 1 ? k : 0);
      const [actual, expected] = [cuda, reference].map((ops) => products(ops, [part], 'int8', x));
      expect(actual!.slice(0, 2)).toEqual(expected!.slice(0, 2));
      expectClose(actual![2]!, expected![2]!, { absolute: 1e-5, relative: 2 ** -8 });
      expect(rowsOf(cuda, part, 'int8')).toEqual(rowsOf(reference, part, 'int8'));
    }
  });

  it('makes int8 of codes and of blocks as of the numbers that they encode', () => {
    const random = new Random(7);
    const [n, k] = [37, 512];
    const codes = randomCodes(folder, random, { kind: 'int4', groupSize: 128, hasZeros: true }, n, k);
    const { blocks, numbers } = blocksAndNumbers(folder, random, 'q4_k', n, k);
    const pairs: [LinearPart, LinearPart][] = [
      [{ weight: codes, bias: null }, plainPart(folder.write([n, k], encoded(codes)))],
      [blocks, numbers],
    ];
    for (const [part, plain] of pairs) {
      expect(rowsOf(cuda, part, 'int8')).toEqual(rowsOf(reference, plain, 'int8'));
    }
  });

  it('gives no number in int8 for a row with one that is none, and the others as without it', () => {
    const [n, k] = [20, 33];
    const random = new Random(6);
    const part = plainPart(folder.write([n, k], random.floats(n * k)));
    const x = random.floats(3 * k);
    const [expected] = products(cuda, [part], 'int8', x);
    x[k + 32] = Number.POSITIVE_INFINITY;
    const [actual] = products(cuda, [part], 'int8', x);
    expect(actual!.subarray(n, 2 * n).every(Number.isNaN)).toBe(true);
    for (const row of [0, 2]) {
      expect(actual!.subarray(row * n, (row + 1) * n)).toEqual(expected!.subarray(row * n, (row + 1) * n));
    }
  });

  it('computes in f32 what the definition does', () => {
    const random = new Random(7);
    for (const { rows, k, n } of [
      { rows: 1, k: 40, n: 70 },
      { rows: 19, k: 33, n: 12 },
    ]) {
      const part = plainPart(folder.write([n, k], random.floats(n * k)), folder.write([n], random.floats(n)));
      const x = random.floats(rows * k);
      const [actual, expected] = [cuda, reference].map((ops) => products(ops, [part], 'f32', x));
      for (const [i, numbers] of expected!.entries()) expectClose(actual![i]!, numbers, sumTolerance(16 * k));
      expect(rowsOf(cuda, part, 'f32')).toEqual(rowsOf(reference, part, 'f32'));
    }
  });

  it.each<WeightFormat>(['f32', 'int8', codeFormats[0]!, 'q4_k'])(
    'has for each row of a product in %o the bits that the row has alone',
    (format) => {
      const [rows, n, k] = [70, 24, 768];
      const random = new Random(8);
      const bytes = randomBlocks('q4_k', n * k, () => random.next());
      const part: LinearPart =
        format === 'q4_k'
          ? {
              weight: { kind: 'blocks', format, tensor: folder.writeBytes([n, k], bytes, format) },
              bias: null,
            }
          : plainPart(folder.write([n, k], random.floats(n * k)));
      const x = random.floats(rows * k);
      const together = products(cuda, [part], format, x);
      for (const [from, to] of [
        [69, 70],
        [3, 12],
        [20, 60],
      ] as const) {
        const some = products(cuda, [part], format, x.subarray(from * k, to * k));
        expect(some).toEqual(together.map((numbers) => numbers.subarray(from * n, to * n)));
      }
    },
  );

  const HEADS: readonly (Heads & { readonly keysAreValues?: boolean })[] = [
    { headDim: 16, kvHeads: 2, group: 2, blockSize: 16, window: null },
    { headDim: 80, kvHeads: 1, group: 3, blockSize: 32, window: 40, softcap: 5, hasSinks: true },
    { headDim: 48, kvHeads: 1, group: 5, blockSize: 16, window: null, keysAreValues: true },
    { headDim: 576, kvHeads: 1, group: 2, blockSize: 16, window: null, keysAreValues: true },
    { headDim: 256, kvHeads: 1, group: 2, blockSize: 16, window: null },
    { headDim: 512, kvHeads: 1, group: 2, blockSize: 16, window: null },
    { headDim: 128, kvHeads: 1, group: 5, blockSize: 16, window: null, chunk: 24 },
  ];

  it.each(kvDTypes.flatMap((dtype) => HEADS.map((heads) => [dtype, heads] as const)))(
    'attends over keys and values in %s: %o',
    (dtype, heads) => {
      const sizes = [
        { context: 300, queries: 20 },
        { context: 20, queries: 20 },
        { context: 70, queries: 1 },
      ];
      const { sequences, numBlocks } = makeSequences(new Random(9), heads, dtype, sizes);
      const compute = (ops: Ops, some: typeof sequences): Float32Array =>
        ops.scope(() => {
          const cache = cacheOf(ops, heads, dtype, numBlocks);
          for (const one of sequences) storeTokens(ops, cache, 0, one, 0, one.context);
          return attend(ops, cache, 0, heads, some);
        });
      const whole = compute(cuda, sequences);
      expectClose(whole, compute(reference, sequences), { absolute: dtype === 'f32' ? 1e-5 : 2 ** -7 });
      const width = heads.headDim * heads.kvHeads * heads.group;
      const last = { ...sequences[0]!, queries: 1 };
      expect(compute(cuda, [last])).toEqual(whole.subarray(19 * width, 20 * width));
    },
  );

  it.each(kvDTypes)('keeps in %s exactly what the definition keeps of numbers of every size', (dtype) => {
    // A token that sees itself alone gets its own value back.
    const heads: Heads = { headDim: 40, kvHeads: 2, group: 1, blockSize: 16, window: 1 };
    const { sequences, numBlocks } = makeSequences(new Random(10), heads, dtype, [
      { context: 40, queries: 40 },
    ]);
    const v = sequences[0]!.v.map((value, i) => value * 2 ** ((i % 24) - 12));
    const sequence = { ...sequences[0]!, v };
    const compute = (ops: Ops): Float32Array =>
      ops.scope(() => {
        const cache = cacheOf(ops, heads, dtype, numBlocks);
        storeTokens(ops, cache, 0, sequence, 0, 40);
        return attend(ops, cache, 0, heads, [sequence]);
      });
    expect(compute(cuda)).toEqual(compute(reference));
  });

  it.each(kvDTypes)('gives no number to those who see a key in %s that is none', (dtype) => {
    const heads: Heads = { headDim: 16, kvHeads: 1, group: 3, blockSize: 16, window: null };
    const { sequences, numBlocks } = makeSequences(new Random(11), heads, dtype, [
      { context: 70, queries: 70 },
    ]);
    const k = sequences[0]!.k.slice();
    k[50 * 16 + 3] = Number.NaN;
    const rows = cuda.scope(() => {
      const cache = cacheOf(cuda, heads, dtype, numBlocks);
      storeTokens(cuda, cache, 0, { ...sequences[0]!, k }, 0, 70);
      return attend(cuda, cache, 0, heads, sequences);
    });
    expect([...rows].map(Number.isNaN)).toEqual(Array.from(rows, (_, i) => i >= 50 * 48));
  });

  function cacheOf(ops: Ops, heads: (typeof HEADS)[number], dtype: KvDType, blocks: number) {
    const { headDim, kvHeads, blockSize, keysAreValues = false } = heads;
    return ops.makeKvCache({ layers: 1, blocks, blockSize, kvHeads, headDim, dtype, keysAreValues });
  }

  it.each(kvDTypes)('takes for a block of %s the bytes that the reference takes', (dtype) => {
    const shape = { layers: 1, blocks: 2, blockSize: 16, kvHeads: 2, headDim: 64, dtype };
    expect(cuda.makeKvCache(shape).layerBlockBytes).toBe(reference.makeKvCache(shape).layerBlockBytes);
  });

  it('has launched each kernel of attention over fp8 and int8 by now', needsCudaEmulators, () => {
    expect(launched.lacking(/^svc(?:Fp8|Int8)(?:(?:Few)?Attention|Latent)\d/)).toEqual([]);
  });
});
