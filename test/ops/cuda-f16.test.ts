// The CUDA backend with halves of f16, which has kernels of its own: over an emulated driver, against the definition of each op.

import { afterAll, expect, it, vi } from 'vitest';
import { formatName, type KvDType, type WeightFormat } from '../../src/ops/dtype.ts';
import type { Ops } from '../../src/ops/ops.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { type LinearPart, plainPart } from '../../src/ops/weights.ts';
import { describeCuda, needsCudaEmulators, openCuda } from '../helpers/cuda-emulator.ts';
import { CUDA_EMULATOR } from '../helpers/emulator-files.ts';
import { blocksAndNumbers } from '../helpers/random-blocks.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import { attend, type Heads, makeSequences, storeTokens } from './attention-cases.ts';
import { compute, load, makeInput, makeParts, NORMALIZED, upTo } from './expert-cases.ts';
import { adaptersOf, K, KINDS, product } from './lora-cases.ts';
import { codeFormats, expectClose, Random, sumTolerance } from './native-backends.ts';
import { CODE_FORMATS, decoded, randomCodes } from './random-codes.ts';

const folder = new WeightFolder();
afterAll(() => folder.remove());

/** Half a last place of f16, with room for a rounding that falls the other way: an eighth of that of bf16. */
const F16_ROUNDING = 2 ** -11;

describeCuda('the CUDA backend in f16', () => {
  const cuda = openCuda(false, undefined, 'f16');
  const reference = new ReferenceOps('f16');
  afterAll(() => cuda.close());

  /** Each product that there is of parts, the first of which is gate and up as well. */
  function products(ops: Ops, parts: readonly LinearPart[], format: WeightFormat, x: Float32Array) {
    return ops.scope(() => {
      const linear = ops.loadLinear(parts, format);
      const input = ops.tensor(x, x.length / linear.k, linear.k, linear.inputDType);
      const gated = ops.gateUp(input, ops.loadGateUp(parts[0]!, parts[0]!, format), 'silu');
      return [ops.linear(input, linear), gated].map((out) => ops.read(out));
    });
  }

  it('computes with halves of f16 where a model is to be, and with no others', () => {
    expect(cuda.half).toBe('f16');
    const part = plainPart(folder.write([8, 32], new Float32Array(256)));
    expect(() => cuda.loadLinear([part], 'bf16')).toThrow(/f32, f16, int8, blocks or codes.*bf16/);
    const shape = { layers: 1, blocks: 1, blockSize: 16, kvHeads: 1, headDim: 16, dtype: 'bf16' } as const;
    expect(() => cuda.makeKvCache(shape)).toThrow(/f32, f16, fp8 or int8.*bf16/);
  });

  it('says where kernels are of other halves', needsCudaEmulators, () => {
    // Beside a file for bf16 that for f16 has the same name, and -f16 behind it.
    vi.stubEnv('SVC_CUDA_KERNELS', CUDA_EMULATOR.SVC_CUDA_KERNELS.replace('.so', '-f16.so'));
    expect(() => openCuda()).toThrow(
      /kernels of .*-f16\.so are for f16, and the model is to be computed in bf16/,
    );
    expect(() => openCuda(false, undefined, 'f16')).toThrow(/no .*-f16-f16\.so/);
    vi.unstubAllEnvs();
  });

  it('carries every number of f16 to the device and back, and rounds others to the nearest', () => {
    const values = new Random(1).floats(9 * 45).map((value, i) => value * 2 ** ((i % 44) - 26));
    values.set([65519, 65520, -1e9, 2 ** -25, 3 * 2 ** -25, -0]);
    const make = (ops: Ops) => ops.scope(() => ops.read(ops.tensor(values, 9, 45, 'f16')));
    const expected = make(reference);
    expect(make(cuda)).toEqual(expected);
    const cast = (ops: Ops) => ops.scope(() => ops.read(ops.cast(ops.tensor(values, 9, 45, 'f32'), 'f16')));
    expect(cast(cuda)).toEqual(expected);
  });

  it('refuses a weight that f16 cannot hold', () => {
    const weight = folder.write([2, 32], new Float32Array(64).fill(1, 0, 63).fill(70000, 63), 'bf16');
    for (const ops of [cuda, reference]) {
      expect(() => ops.loadLinear([plainPart(weight)], 'f16')).toThrow(/not finite at \[1, 31\].*too large/);
    }
  });

  it.each([
    [1, 40, 7],
    [9, 520, 70],
    [70, 96, 40],
  ])('multiplies %i rows of %i numbers by weights of %i rows', (rows, k, n) => {
    const random = new Random(rows);
    for (const dtype of ['f16', 'f32', 'bf16'] as const) {
      const weight = folder.write([n, k], random.floats(n * k), dtype);
      const part = plainPart(weight, folder.write([n], random.floats(n)));
      const x = random.floats(rows * k);
      const [actual, expected] = [cuda, reference].map((ops) => products(ops, [part], 'f16', x));
      const { absolute } = sumTolerance(k);
      expectClose(actual![0]!, expected![0]!, { absolute });
      const ofGates = { absolute: absolute * (2 + Math.sqrt(k)), relative: F16_ROUNDING };
      expectClose(actual![1]!, expected![1]!, ofGates);
      const [from, to] = [Math.floor(rows / 2), Math.floor(rows / 2) + 1];
      const alone = products(cuda, [part], 'f16', x.subarray(from * k, to * k));
      expect(alone).toEqual(actual!.map((numbers) => numbers.subarray(from * n, to * n)));
    }
  });

  it.each(CODE_FORMATS.map((format) => [formatName(format), format] as const))(
    'has in every product of codes of %s the bits of the halves that they encode',
    (_, format) => {
      const [rows, n, k] = [9, 33, 300];
      const random = new Random(1);
      const weight = randomCodes(folder, random, format, n, k);
      const x = random.floats(rows * k);
      const coded = products(cuda, [{ weight, bias: null }], format, x);
      expect(coded).toEqual(products(cuda, [decoded(folder, weight, 'f16')], 'f16', x));
    },
  );

  it.each(['q4_k', 'q6_k', 'mxfp4'] as const)(
    'has in every product of blocks of %s the bits of their halves',
    (dtype) => {
      const [n, k, rows] = [37, 512, 3];
      const random = new Random(2);
      const { blocks, numbers } = blocksAndNumbers(folder, random, dtype, n, k);
      const x = random.floats(rows * k);
      expect(products(cuda, [blocks], dtype, x)).toEqual(products(cuda, [numbers], 'f16', x));
    },
  );

  it('has in int8 the bits of the definition, and quantises to other codes as that does', () => {
    const [rows, n, k] = [3, 70, 1100];
    const random = new Random(5);
    const part = plainPart(folder.write([n, k], random.floats(n * k)), folder.write([n], random.floats(n)));
    const x = random.floats(rows * k);
    const [actual, expected] = [cuda, reference].map((ops) => products(ops, [part], 'int8', x)[0]!);
    expect(actual).toEqual(expected);
    for (const format of codeFormats) {
      const [own, defined] = [cuda, reference].map((ops) => products(ops, [part], format, x)[0]!);
      expectClose(own!, defined!, { absolute: 2 ** -9 * Math.sqrt(k), relative: 2 ** -9 });
    }
  });

  const HEADS: readonly (Heads & { readonly keysAreValues?: boolean })[] = [
    { headDim: 16, kvHeads: 2, group: 2, blockSize: 16, window: null },
    { headDim: 128, kvHeads: 1, group: 3, blockSize: 32, window: 40, softcap: 5, hasSinks: true },
    { headDim: 512, kvHeads: 1, group: 2, blockSize: 16, window: null },
    { headDim: 128, kvHeads: 1, group: 5, blockSize: 16, window: null, chunk: 24 },
    { headDim: 48, kvHeads: 1, group: 5, blockSize: 16, window: null, keysAreValues: true },
  ];
  const DTYPES: readonly KvDType[] = ['f16', 'fp8', 'int8'];

  it.each(DTYPES.flatMap((dtype) => HEADS.map((heads) => [dtype, heads] as const)))(
    'attends over keys and values in %s: %o',
    (dtype, heads) => {
      const sizes = [
        { context: 300, queries: 20 },
        { context: 70, queries: 1 },
      ];
      const { sequences, numBlocks } = makeSequences(new Random(9), heads, dtype, sizes);
      const { headDim, kvHeads, blockSize, keysAreValues = false } = heads;
      const compute = (ops: Ops, some: typeof sequences): Float32Array =>
        ops.scope(() => {
          const shape = { layers: 1, blocks: numBlocks, blockSize, kvHeads, headDim, dtype, keysAreValues };
          const cache = ops.makeKvCache(shape);
          for (const one of sequences) storeTokens(ops, cache, 0, one, 0, one.context);
          return attend(ops, cache, 0, heads, some);
        });
      const whole = compute(cuda, sequences);
      expectClose(whole, compute(reference, sequences), { absolute: 2 ** -9 });
      const width = headDim * kvHeads * heads.group;
      const last = { ...sequences[0]!, queries: 1 };
      expect(compute(cuda, [last])).toEqual(whole.subarray(19 * width, 20 * width));
    },
  );

  it('has mixtures of experts that are what their definition says', () => {
    const random = new Random(1);
    const [rows, count, k, inner] = [5, 8, 72, 41];
    const parts = makeParts(folder, random, count, k, inner);
    const input = makeInput(random, rows, k, count);
    const [actual, expected] = [cuda, reference].map((ops) =>
      compute(ops, load(ops, parts, 'f16'), NORMALIZED, input, upTo(rows)),
    );
    const size = Math.sqrt(expected!.reduce((sum, value) => sum + value * value, 0) / expected!.length);
    expectClose(actual!, expected!, { absolute: size * 2 ** -9, relative: 2 ** -9 });
  });

  it.each(KINDS)('lets adapters add to %s what the definition says', (kind) => {
    const adapters = adaptersOf(9, 2);
    const x = new Random(3).floats(adapters.length * K);
    const [actual, expected] = [cuda, reference].map((ops) =>
      product(folder, ops, 'f16', kind).run(x, adapters),
    );
    const { absolute } = sumTolerance(K);
    expectClose(actual!, expected!, { absolute: absolute * (2 + Math.sqrt(K)), relative: F16_ROUNDING });
  });
});
