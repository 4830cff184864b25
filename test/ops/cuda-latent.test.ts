// Latent attention of the CUDA backend, over an emulated driver: caches whose keys are their values, and products by heads.

import { afterAll, expect, it } from 'vitest';
import { NotAvailableError } from '../../src/errors.ts';
import type { ComputeDType } from '../../src/ops/dtype.ts';
import type { Ops } from '../../src/ops/ops.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { plainPart } from '../../src/ops/weights.ts';
import { describeCuda, openCuda } from '../helpers/cuda-emulator.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import { attend, type Heads, makeSequences, type Sequence, storeTokens } from './attention-cases.ts';
import { expectClose, Random, sumTolerance } from './native-backends.ts';

const folder = new WeightFolder();
afterAll(() => folder.remove());

const HEADS: readonly Heads[] = [
  { headDim: 40, kvHeads: 1, group: 4, blockSize: 16, window: null },
  // More heads than a block takes rows.
  { headDim: 64, kvHeads: 2, group: 37, blockSize: 32, window: 90, softcap: 5, hasSinks: true },
  { headDim: 576, kvHeads: 1, group: 3, blockSize: 16, window: null },
];

describeCuda('latent attention of the CUDA backend', () => {
  const cuda = openCuda();
  const reference = new ReferenceOps();
  afterAll(() => cuda.close());

  /** Attention over a cache that holds all of `sequences`. */
  function over(
    ops: Ops,
    heads: Heads,
    numBlocks: number,
    sequences: readonly Sequence[],
    queries = sequences,
  ) {
    const { headDim, kvHeads, blockSize } = heads;
    const shape = { layers: 2, blocks: numBlocks, blockSize, kvHeads, headDim, dtype: 'bf16' } as const;
    return ops.scope(() => {
      const cache = ops.makeKvCache({ ...shape, keysAreValues: true });
      for (const sequence of sequences) storeTokens(ops, cache, 1, sequence, 0, sequence.context);
      return attend(ops, cache, 1, heads, queries);
    });
  }

  it.each(HEADS)('takes the keys for values: %o', (heads) => {
    for (const sizes of [
      [
        { context: 20, queries: 20 },
        { context: 70, queries: 9 },
      ],
      [
        { context: 300, queries: 1 },
        { context: 5, queries: 1 },
      ],
    ]) {
      const { sequences, numBlocks } = makeSequences(new Random(1), heads, 'bf16', sizes);
      const [actual, expected] = [cuda, reference].map((ops) => over(ops, heads, numBlocks, sequences));
      expectClose(actual!, expected!, { absolute: 2 ** -7 });
    }
  });

  it.each(HEADS)('has for each row the bits that it has alone, in chunks and beside others: %o', (heads) => {
    const width = heads.headDim * heads.kvHeads * heads.group;
    const sizes = [
      { context: 300, queries: 60 },
      { context: 40, queries: 7 },
    ];
    const { sequences, numBlocks } = makeSequences(new Random(2), heads, 'bf16', sizes);
    const whole = over(cuda, heads, numBlocks, sequences);
    for (const [context, queries] of [
      [241, 1],
      [257, 1],
      [270, 27],
      [300, 9],
    ] as const) {
      const first = (context - queries - 240) * width;
      const alone = over(cuda, heads, numBlocks, sequences, [{ ...sequences[0]!, context, queries }]);
      expect(alone).toEqual(whole.subarray(first, first + queries * width));
    }
  });

  it('refuses heads that it has no kernel for', () => {
    const shape = { layers: 1, blocks: 1, blockSize: 16, kvHeads: 1, dtype: 'bf16' } as const;
    for (const headDim of [44, 584]) {
      expect(() => cuda.makeKvCache({ ...shape, headDim, keysAreValues: true })).toThrow(NotAvailableError);
    }
  });
});

describeCuda('products by heads of the CUDA backend', () => {
  const cuda = openCuda();
  afterAll(() => cuda.close());
  const [heads, n, k] = [5, 20, 530];
  const random = new Random(3);
  const parts = Array.from({ length: heads }, () => plainPart(folder.write([n, k], random.floats(n * k))));

  const run = (
    ops: Ops,
    x: Float32Array,
    rows: number,
    dtype: ComputeDType,
    keepsRest: boolean,
    format: ComputeDType = 'bf16',
  ) => {
    const own = parts.map((part) => ops.loadLinear([part], format));
    return ops.scope(() =>
      ops.read(ops.headLinear(ops.tensor(x, rows, x.length / rows, dtype), own, keepsRest)),
    );
  };

  it.each([
    [530, false, 'f32'],
    [530, true, 'bf16'],
    [537, false, 'bf16'],
    [537, true, 'f32'],
  ] as const)('multiply heads of %i numbers, the rest kept: %s, in %s', (width, keepsRest, dtype) => {
    for (const rows of [1, 70]) {
      const x = random.floats(rows * heads * width, 'bf16');
      const [actual, expected] = [cuda, new ReferenceOps()].map((ops) => run(ops, x, rows, dtype, keepsRest));
      expectClose(actual!, expected!, sumTolerance(k));
    }
  });

  it('multiply by weights in float32', () => {
    const x = random.floats(20 * heads * 537);
    const compute = (ops: Ops) => run(ops, x, 20, 'f32', true, 'f32');
    expectClose(compute(cuda), compute(new ReferenceOps()), sumTolerance(k));
  });

  it('give a row the same bits in any batch', () => {
    const width = heads * 540;
    const x = random.floats(70 * width);
    const whole = run(cuda, x, 70, 'f32', true);
    for (const rows of [1, 9, 33]) {
      expect(run(cuda, x.subarray(0, rows * width), rows, 'f32', true)).toEqual(
        whole.subarray(0, (whole.length / 70) * rows),
      );
    }
  });
});
