// The CUDA backend, over an emulated driver and its real kernels, against the definition of each op.

import { setTimeout } from 'node:timers/promises';
import { afterAll, expect, it, vi } from 'vitest';
import { NotAvailableError } from '../../src/errors.ts';
import type { KvCache, Ops } from '../../src/ops/ops.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { type LinearPart, plainPart } from '../../src/ops/weights.ts';
import { describeCuda, needsCudaEmulators, openCuda } from '../helpers/cuda-emulator.ts';
import { LaunchedKernels } from '../helpers/launched-kernels.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import {
  attend,
  type Heads,
  makeSequences,
  partsAround,
  type Sequence,
  storeTokens,
} from './attention-cases.ts';
import { BF16_ROUNDING, expectClose, Random, sumTolerance, type Tolerance } from './native-backends.ts';
import { beginStep } from './steps.ts';

const folder = new WeightFolder();
const launched = new LaunchedKernels();
afterAll(() => {
  folder.remove();
  launched.remove();
});

const SHAPE = { layers: 1, blocks: 4, blockSize: 16, kvHeads: 1, headDim: 16, dtype: 'bf16' } as const;

function makePart(random: Random, n: number, k: number, hasBias: boolean): LinearPart {
  const weight = folder.write([n, k], random.floats(n * k), 'bf16');
  return plainPart(weight, hasBias ? folder.write([n], random.floats(n)) : null);
}

describeCuda('the CUDA backend', () => {
  const cuda = openCuda();
  const reference = new ReferenceOps();
  afterAll(() => cuda.close());

  function expectSame(tolerance: Tolerance, compute: (ops: Ops) => Float32Array): void {
    expectClose(
      cuda.scope(() => compute(cuda)),
      reference.scope(() => compute(reference)),
      tolerance,
    );
  }

  it('carries numbers to the device and back, of whole tensors and of views', () => {
    const values = new Random(1).floats(7 * 45);
    expectSame({ absolute: 0 }, (ops) => ops.read(ops.tensor(values, 7, 45, 'f32')));
    expectSame({ absolute: 0 }, (ops) => ops.read(ops.tensor(values, 7, 45, 'bf16')));
    expectSame({ absolute: 0 }, (ops) => ops.read(ops.split(ops.tensor(values, 7, 45, 'f32'), [13, 32])[1]!));
  });

  it('adds numbers of rows up as their definition does: norms and means', () => {
    const random = new Random(2);
    const [rows, heads, headDim] = [5, 3, 40];
    const x = random.floats(rows * heads * headDim);
    const [whole, head] = [random.floats(heads * headDim), random.floats(headDim)];
    const tolerance = { absolute: 1e-5, relative: BF16_ROUNDING };
    const tensor = (ops: Ops) => ops.tensor(x, rows, heads * headDim, 'f32');
    for (const groups of [1, 3]) {
      expectSame(tolerance, (ops) =>
        ops.read(ops.rmsNorm(tensor(ops), ops.makeVector(whole), 1e-5, 'bf16', groups)),
      );
    }
    expectSame(tolerance, (ops) =>
      ops.read(ops.layerNorm(tensor(ops), ops.makeVector(whole), ops.makeVector(whole), 1e-5, 'f32')),
    );
    expectSame(tolerance, (ops) => {
      const input = tensor(ops);
      ops.qkNorm(input, ops.makeVector(head), 1e-5);
      ops.headLayerNorm(input, ops.makeVector(whole), headDim, 1e-5);
      return ops.read(input);
    });
    expectSame(tolerance, (ops) => ops.read(ops.meanRows(tensor(ops), Int32Array.of(0, 2, 5))));
  });

  it('makes each number of a row as its definition does', () => {
    const random = new Random(3);
    const [rows, cols] = [4, 48];
    const x = random.floats(rows * cols).map((value) => value * 8);
    const tolerance = { absolute: 1e-5, relative: BF16_ROUNDING };
    const tensor = (ops: Ops) => ops.tensor(x, rows, cols, 'f32');
    for (const activation of ['silu', 'gelu', 'gelu_tanh', 'relu', 'relu2'] as const) {
      expectSame(tolerance, (ops) => ops.read(ops.activate(tensor(ops), activation, 'bf16')));
    }
    const factors = { positive: 0.7, negative: 1.3, linear: 0.5, least: -1e-6 };
    expectSame(tolerance, (ops) => ops.read(ops.xielu(tensor(ops), factors, 'bf16')));
    expectSame(tolerance, (ops) => {
      const sum = tensor(ops);
      ops.addScaled(sum, tensor(ops), 0.5);
      ops.scale(sum, 3);
      ops.softcap(sum, 20);
      return ops.read(ops.cast(sum, 'bf16'));
    });
    expectSame({ absolute: 0 }, (ops) => {
      const clipped = tensor(ops);
      ops.clip(clipped, -2, 4);
      return ops.read(clipped);
    });
    expectSame(tolerance, (ops) => ops.read(ops.gatherRows(tensor(ops), Int32Array.of(3, 0, 3))));
    const table = random.floats(64 * 16);
    expectSame(tolerance, (ops) => {
      const input = tensor(ops);
      const planePositions = Int32Array.of(0, 6, 62, 8, 1, 9, 0, 63);
      const places = { positions: Int32Array.of(0, 5, 63, 7), planePositions };
      const step = beginStep(ops, ops.makeKvCache(SHAPE), rows, places);
      const sections = { lines: 3, columns: 2, alternate: true };
      ops.rope(input, step, ops.makeVector(table), { headDim: 24, first: 4, rotaryDim: 16 });
      ops.rope(input, step, ops.makeVector(table), { headDim: 24, rotaryDim: 16, isInterleaved: true });
      ops.rope(input, step, ops.makeVector(table), { headDim: 24, rotaryDim: 16, sections });
      return ops.read(input);
    });
  });

  it('closes gates, and joins and mixes streams as their definition does', () => {
    const random = new Random(4);
    const [rows, width] = [5, 48];
    const [x, others] = [random.floats(rows * width), random.floats(rows * 3 * width)];
    const [numbers, coefficients] = [random.floats(rows * 4), random.floats(4 * 4 * 4)];
    const factors = random.floats(width);
    const tolerance = { absolute: 1e-5, relative: BF16_ROUNDING };
    const tensor = (ops: Ops) => ops.tensor(x, rows, width, 'f32');
    expectSame(tolerance, (ops) => ops.read(ops.scaleColumns(tensor(ops), ops.makeVector(factors), 'bf16')));
    expectSame(tolerance, (ops) => {
      const input = tensor(ops);
      ops.sparsify(input, 0.5);
      return ops.read(input);
    });
    expectSame(tolerance, (ops) => {
      const joined = ops.joinStreams(tensor(ops), ops.tensor(others, rows, 3 * width, 'f32'), 1e-5);
      const own = ops.tensor(numbers, rows, 4, 'f32');
      ops.addMixed(joined, joined, own, {
        width,
        coefficients: ops.makeVector(coefficients),
        offset: 0,
      });
      const one = { width, coefficients: ops.makeVector(coefficients.slice(0, 16)), offset: 1 };
      ops.addMixed(joined, tensor(ops), own, one);
      return ops.read(joined);
    });
  });

  it.each([
    [1, 40, [7]],
    [3, 64, [48, 16, 5]],
    [9, 520, [70]],
    [17, 200, [33, 31]],
    [70, 96, [40]],
  ])('multiplies %i rows of %i numbers by weights of %j rows', (rows, k, sizes) => {
    const random = new Random(rows);
    const parts = sizes.map((n, i) => makePart(random, n, k, i === 0));
    const [gate, up] = [makePart(random, sizes[0]!, k, true), makePart(random, sizes[0]!, k, false)];
    const n = sizes.reduce((sum, size) => sum + size, 0);
    const [x, before] = [random.floats(rows * k), random.floats(rows * n)];
    const input = (ops: Ops) => ops.tensor(x, rows, k, 'bf16');
    expectSame(sumTolerance(k + 1), (ops) => {
      const sum = ops.tensor(before, rows, n, 'f32');
      const weight = ops.loadLinear(parts, 'bf16');
      ops.addLinear(sum, input(ops), weight);
      return Float32Array.from([...ops.read(sum), ...ops.read(ops.linear(input(ops), weight))]);
    });
    const { absolute } = sumTolerance(k);
    expectSame({ absolute: absolute * (2 + Math.sqrt(k)), relative: BF16_ROUNDING }, (ops) =>
      ops.read(ops.gateUp(input(ops), ops.loadGateUp(gate, up, 'bf16'), 'silu')),
    );
  });

  const HEADS: readonly Heads[] = [
    { headDim: 16, kvHeads: 2, group: 2, blockSize: 16, window: null },
    { headDim: 64, kvHeads: 1, group: 5, blockSize: 32, window: 40, softcap: 5 },
    { headDim: 128, kvHeads: 1, group: 4, blockSize: 16, window: null, hasSinks: true },
    { headDim: 256, kvHeads: 1, group: 2, blockSize: 16, window: null },
    { headDim: 512, kvHeads: 1, group: 2, blockSize: 16, window: 100 },
    { headDim: 128, kvHeads: 1, group: 5, blockSize: 16, window: null, chunk: 64 },
    { headDim: 64, kvHeads: 2, group: 2, blockSize: 16, window: 50, chunk: 290 },
  ];

  function attention(ops: Ops, heads: Heads, queries: readonly (readonly [number, number])[]): Float32Array {
    const sizes = queries.map(([context, count]) => ({ context, queries: count }));
    const { sequences, numBlocks } = makeSequences(new Random(5), heads, 'bf16', sizes);
    return ops.scope(() => {
      const { headDim, kvHeads, blockSize } = heads;
      const shape = { layers: 2, blocks: numBlocks, blockSize, kvHeads, headDim, dtype: 'bf16' } as const;
      const cache = ops.makeKvCache(shape);
      for (const sequence of sequences) storeTokens(ops, cache, 1, sequence, 0, sequence.context);
      return attend(ops, cache, 1, heads, sequences);
    });
  }

  it.each(HEADS)('attends over pages: %o', (heads) => {
    for (const queries of [
      [
        [20, 20],
        [3, 1],
        [70, 9],
      ],
      [
        [300, 1],
        [5, 1],
      ],
    ] as const) {
      expectClose(attention(cuda, heads, queries), attention(reference, heads, queries), {
        absolute: 2 ** -7,
      });
    }
  });

  it.each(HEADS)('has the same bits where attention follows a schedule: %o', (heads) => {
    const scheduled = openCuda(true);
    for (const queries of [
      [
        [300, 33],
        [3, 1],
        [70, 9],
      ],
      [
        [1100, 1],
        [5, 1],
        [300, 1],
      ],
    ] as const) {
      expect(attention(scheduled, heads, queries)).toEqual(attention(cuda, heads, queries));
    }
    scheduled.close();
  });

  it('shows rows the tokens after them where attention is bidirectional', () => {
    const heads: Heads = {
      headDim: 32,
      kvHeads: 1,
      group: 2,
      blockSize: 16,
      window: null,
      isBidirectional: true,
    };
    const queries = [
      [90, 90],
      [4, 4],
    ] as const;
    expectClose(attention(cuda, heads, queries), attention(reference, heads, queries), { absolute: 2 ** -7 });
  });

  it.each([
    ['of two columns of values', 256, 60],
    ['of all tokens', 64, null],
  ] as const)('shows them to rows of the sequences that say so alone, in layers %s', (_, headDim, window) => {
    const heads: Heads = { headDim, kvHeads: 1, group: 2, blockSize: 16, window };
    const { sequences, numBlocks } = makeSequences(new Random(9), heads, 'bf16', [
      { context: 120, queries: 120 },
      { context: 20, queries: 1 },
    ]);
    const parts = [...partsAround(sequences[0]!, 30, 85), sequences[1]!];
    const compute = (ops: Ops, how: Heads = heads, those: readonly Sequence[] = parts) =>
      ops.scope(() => {
        const shape = {
          layers: 1,
          blocks: numBlocks,
          blockSize: 16,
          kvHeads: 1,
          headDim,
          dtype: 'bf16',
        } as const;
        const cache = ops.makeKvCache(shape);
        for (const one of sequences) storeTokens(ops, cache, 0, one, 0, one.context);
        return attend(ops, cache, 0, how, those);
      });
    const got = compute(cuda);
    expectClose(got, compute(reference), { absolute: 2 ** -7 });
    const scheduled = openCuda(true);
    expect(compute(scheduled)).toEqual(got);
    const none = { ...heads, isBidirectional: false };
    for (const ops of [cuda, scheduled]) expect(compute(ops, none)).toEqual(compute(ops, heads, sequences));
    scheduled.close();
  });

  it('says what it does not compute yet, naming --device cuda', () => {
    const attempt = () => cuda.makeKvCache({ ...SHAPE, headDim: 12 });
    expect(attempt).toThrow(NotAvailableError);
    expect(attempt).toThrow(/with --device cuda.*--device cpu/);
    expect(cuda.packedWeights).toBeNull();
  });

  it('has for each row of a product the bits that the row has alone', () => {
    const random = new Random(7);
    const [rows, k, n] = [70, 520, 48];
    const x = random.floats(rows * k);
    const weight = cuda.loadLinear([makePart(random, n, k, true)], 'bf16');
    const gateUp = cuda.loadGateUp(makePart(random, n, k, false), makePart(random, n, k, false), 'bf16');
    const compute = (from: number, to: number) =>
      cuda.scope(() => {
        const input = cuda.tensor(x.subarray(from * k, to * k), to - from, k, 'bf16');
        const products = [cuda.linear(input, weight), cuda.gateUp(input, gateUp, 'silu')];
        return products.map((product) => cuda.read(product));
      });
    const together = compute(0, rows);
    for (const [from, to] of [
      [0, 1],
      [69, 70],
      [3, 12],
      [11, 28],
      [20, 60],
    ] as const) {
      const expected = together.map((numbers) => numbers.subarray(from * n, to * n));
      expect(compute(from, to)).toEqual(expected);
    }
  });

  /** One that has all tokens of the sequences. */
  function cacheOf(heads: Heads, sequences: readonly Sequence[], blocks: number): KvCache {
    const { headDim, kvHeads, blockSize } = heads;
    const cache = cuda.makeKvCache({ layers: 1, blocks, blockSize, kvHeads, headDim, dtype: 'bf16' });
    for (const one of sequences) storeTokens(cuda, cache, 0, one, 0, one.context);
    return cache;
  }

  it.each(HEADS)(
    'has for each row of attention the bits that it has alone, in chunks and beside others: %o',
    (heads) => {
      const width = heads.headDim * heads.kvHeads * heads.group;
      const sizes = [
        { context: 300, queries: 60 },
        { context: 40, queries: 40 },
      ];
      const { sequences, numBlocks } = makeSequences(new Random(8), heads, 'bf16', sizes);
      cuda.scope(() => {
        const cache = cacheOf(heads, sequences, numBlocks);
        const whole = attend(cuda, cache, 0, heads, sequences);
        for (const [context, queries] of [
          [241, 1],
          [256, 1],
          [257, 1],
          [270, 27],
          [300, 9],
        ] as const) {
          const first = (context - queries - 240) * width;
          const alone = attend(cuda, cache, 0, heads, [{ ...sequences[0]!, context, queries }]);
          expect(alone).toEqual(whole.subarray(first, first + queries * width));
        }
      });
    },
  );

  it.each(HEADS)('has them beside so many sequences that none is split: %o', (heads) => {
    const sizes = Array.from({ length: 40 }, (_, i) => ({
      context: i % 8 === 3 ? 300 + i : 1 + i,
      queries: 1,
    }));
    const { sequences, numBlocks } = makeSequences(new Random(12), heads, 'bf16', sizes);
    const width = heads.headDim * heads.kvHeads * heads.group;
    cuda.scope(() => {
      const cache = cacheOf(heads, sequences, numBlocks);
      const together = attend(cuda, cache, 0, heads, sequences);
      for (const i of [0, 3, 35, 39]) {
        const alone = attend(cuda, cache, 0, heads, [sequences[i]!]);
        expect(alone).toEqual(together.subarray(i * width, (i + 1) * width));
      }
    });
  });

  it('counts no time as busy in which nothing was under way, also where a step is larger than all before it', async () => {
    const cuda = openCuda();
    const cache = cuda.makeKvCache({ ...SHAPE, blocks: 2 ** 10 });
    const openedAt = performance.now();
    cuda.scope(() => {
      beginStep(cuda, cache, 1);
      cuda.mark().read();
    });
    const idle = 300;
    await setTimeout(idle);
    cuda.scope(() => {
      beginStep(cuda, cache, 4000);
      cuda.mark().read();
    });
    expect(cuda.busySeconds * 1000).toBeLessThan(performance.now() - openedAt - idle / 2);
    cuda.close();
  });

  it('has the bits that a row has alone where rows are too many for the states of their chunks', () => {
    // On a large device, where so many are split.
    vi.stubEnv('SVC_EMULATED_MULTIPROCESSORS', '132');
    const cuda = openCuda();
    vi.unstubAllEnvs();
    const [rows, headDim, heads, longest, maxBlocks] = [200, 256, 16, 2 ** 15, 2 ** 11];
    const shape = { layers: 1, blocks: 1, blockSize: 16, kvHeads: 1, headDim, dtype: 'bf16' } as const;
    const cache = cuda.makeKvCache(shape);
    const random = new Random(11);
    const q = random.floats(rows * heads * headDim);
    // The states of 190 rows fit at a time.
    const contexts = Int32Array.from({ length: rows }, (_, row) => (row === 7 ? longest : 1 + (row % 16)));
    contexts[195] = longest - 70;
    const compute = (first: number, count: number) =>
      cuda.scope(() => {
        const batch = {
          numSequences: count,
          queryStarts: Int32Array.from({ length: count + 1 }, (_, row) => row),
          contextLengths: contexts.slice(first, first + count),
          blockTables: new Int32Array(count * maxBlocks),
          maxBlocks,
        };
        const step = beginStep(cuda, cache, count, { batch });
        const width = heads * headDim;
        const queries = cuda.tensor(q.subarray(first * width, (first + count) * width), count, width, 'f32');
        return cuda.read(cuda.attention(queries, step, { layer: 0, scale: 1 / 16, window: 300 }));
      });
    cuda.scope(() => {
      const slotMapping = Int32Array.from({ length: 16 }, (_, slot) => slot);
      const [k, v] = [1, 2].map(() => cuda.tensor(random.floats(16 * headDim), 16, headDim, 'f32'));
      cuda.storeKv(k!, v!, beginStep(cuda, cache, 16, { slotMapping }), 0);
    });
    const together = compute(0, rows);
    for (const row of [0, 7, 189, 190, 195, 199]) {
      const width = heads * headDim;
      expect(compute(row, 1)).toEqual(together.subarray(row * width, (row + 1) * width));
    }
    cuda.close();
  });

  it('gives the next embedding tokens that no one has read yet, and those that were read long ago', () => {
    const random = new Random(9);
    const [vocab, k] = [50, 24];
    const table = makePart(random, vocab, k, false);
    const logits = random.floats(3 * vocab);
    const rows = {
      temperature: Float32Array.of(0, 0, 0.7),
      topK: new Int32Array(3),
      topP: new Float32Array(3).fill(1),
      minP: new Float32Array(3),
      uniform: Float64Array.of(0, 0, 0.4),
    };
    expectSame({ absolute: 0 }, (ops) => {
      const weight = ops.loadLinear([table], 'bf16');
      const sampled = ops.sample(ops.tensor(logits, 3, vocab, 'f32'), rows);
      const tokens = { ids: Int32Array.of(-1, 7, -3, -2), sampled };
      const early = ops.embedding(tokens, weight);
      const numbers = ops.read(early);
      const late = ops.embedding(tokens, weight);
      return Float32Array.from([...numbers, ...ops.read(late), ...sampled.read()]);
    });
  });

  it('changes logits, samples and tells log-probabilities as their definitions do', () => {
    const random = new Random(10);
    const [rows, vocab] = [4, 100];
    const values = random.floats(rows * vocab).map((value) => value * 6);
    const lists = {
      rows: Int32Array.of(2, 0),
      starts: Int32Array.of(0, 3, 4),
      ids: Int32Array.of(5, 70, 5, 99),
    };
    const edits = {
      ...lists,
      biases: Float32Array.of(1, -2, 0.5, Number.NEGATIVE_INFINITY),
      counts: Int32Array.of(2, -1, 0, 1),
      repetition: Float32Array.of(1.3, 1),
      frequency: Float32Array.of(0.5, 0),
      presence: Float32Array.of(0.25, 0),
    };
    const words = Uint32Array.of(0xf0f0f0f0, 0x12345678, 0xffffffff, 0xf);
    expectSame({ absolute: 1e-5 }, (ops) => {
      const logits = ops.tensor(values, rows, vocab, 'f32');
      ops.editLogits(logits, edits);
      ops.maskLogits(logits, { rows: Int32Array.of(1), words });
      ops.restrictLogits(logits, { ...lists, rows: Int32Array.of(0, 3) });
      const sampled = ops.sample(logits, {
        temperature: Float32Array.of(0, 1, 0.8, 1.5),
        topK: Int32Array.of(0, 0, 20, 2),
        topP: Float32Array.of(1, 0.9, 0.95, 1),
        minP: Float32Array.of(0, 0, 0.01, 0),
        uniform: Float64Array.of(0, 0.3, 0.6, 0.99),
      });
      const tokens = { ids: Int32Array.of(-1, -3, 12), sampled };
      const told = ops.logprobs(logits, Int32Array.of(0, 2, 1), tokens, 3).read();
      const { logprobs, ranks, topIds, topLogprobs } = told;
      const all = [ops.read(logits), sampled.read(), logprobs, ranks, topIds, topLogprobs];
      // Differences of infinities are none.
      return Float32Array.from(
        all.flatMap((numbers) => Array.from(numbers)),
        (number) => Math.max(number, -1e30),
      );
    });
  });

  // The driver of a GPU gives memory in larger pieces, and others take some of it too.
  it('counts the memory that weights and caches take', needsCudaEmulators, () => {
    const before = cuda.freeMemory();
    const bytes = 2 * 64 * 16 * 2 * 2 * 32;
    cuda.makeKvCache({ layers: 2, blocks: 64, blockSize: 16, kvHeads: 1, headDim: 32, dtype: 'bf16' });
    expect(before - cuda.freeMemory()).toBe(bytes);
  });

  it('has launched each kernel of attention and of products in bf16 by now', needsCudaEmulators, () => {
    expect(launched.lacking(/^svc(?:Scheduled)?(?:Few)?Attention\d|^svcLinear\d/)).toEqual([]);
  });
});
