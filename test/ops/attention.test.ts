// Paged attention of the native backend against its definition.

import { afterAll, describe, expect, it } from 'vitest';
import { unpackE4m3 } from '../../src/ops/float-formats.ts';
import type { Ops } from '../../src/ops/ops.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import {
  attend,
  type Heads,
  makeSequences,
  partsAround,
  type SequenceSize,
  storeTokens,
} from './attention-cases.ts';
import { describeEachIsa, expectClose, kvDTypes, openCpu, Random } from './native-backends.ts';
import { beginStepInto } from './steps.ts';

const HEADS: readonly Heads[] = [
  { headDim: 8, kvHeads: 1, group: 1, blockSize: 16, window: null },
  { headDim: 16, kvHeads: 3, group: 2, blockSize: 16, window: 5 },
  { headDim: 24, kvHeads: 2, group: 3, blockSize: 48, window: null },
  { headDim: 64, kvHeads: 2, group: 7, blockSize: 16, window: null },
  { headDim: 80, kvHeads: 1, group: 9, blockSize: 32, window: 100 },
  { headDim: 96, kvHeads: 2, group: 1, blockSize: 64, window: 64 },
  { headDim: 128, kvHeads: 1, group: 4, blockSize: 16, window: null },
  { headDim: 6, kvHeads: 1, group: 40, blockSize: 16, window: null },
  { headDim: 256, kvHeads: 1, group: 2, blockSize: 16, window: null, hasSinks: true },
  { headDim: 64, kvHeads: 1, group: 5, blockSize: 32, window: 128, softcap: 0.2, hasSinks: true },
  { headDim: 16, kvHeads: 2, group: 3, blockSize: 16, window: null, chunk: 20 },
  { headDim: 64, kvHeads: 1, group: 5, blockSize: 32, window: null, chunk: 512, hasSinks: true },
  { headDim: 128, kvHeads: 2, group: 2, blockSize: 16, window: 30, chunk: 77 },
  { headDim: 32, kvHeads: 12, group: 1, blockSize: 16, window: null, isBidirectional: true },
  { headDim: 64, kvHeads: 2, group: 3, blockSize: 32, window: null, isBidirectional: true },
  { headDim: 16, kvHeads: 12, group: 1, blockSize: 16, window: 65, isBidirectional: true },
  { headDim: 64, kvHeads: 1, group: 3, blockSize: 16, window: 300, isBidirectional: true },
];

const SIZES: readonly SequenceSize[] = [
  { context: 1, queries: 1 },
  { context: 40, queries: 40 },
  { context: 150, queries: 23 },
  { context: 0, queries: 0 },
  { context: 1100, queries: 1 },
  { context: 64, queries: 1 },
  { context: 530, queries: 20 },
];

const LAYER = 1;

/** What the reference gives, by a name of the case: it is the same for every instruction set, and takes most of the time. */
const expectations = new Map<string, Float32Array>();

function once(name: string, compute: () => Float32Array): Float32Array {
  const expected = expectations.get(name) ?? compute();
  expectations.set(name, expected);
  return expected;
}

describeEachIsa('attention', (isa) => {
  const cpu = openCpu(isa);
  const reference = new ReferenceOps();
  afterAll(() => cpu.close());

  describe.each(kvDTypes)('over a %s cache', (dtype) => {
    it.each(HEADS)('is the softmax of visible tokens for %o', (heads) => {
      const random = new Random(heads.headDim);
      const { sequences, numBlocks } = makeSequences(random, heads, dtype, SIZES);
      const compute = (ops: Ops): Float32Array =>
        ops.scope(() => {
          const { headDim, kvHeads, blockSize } = heads;
          const cache = ops.makeKvCache({ layers: 2, blocks: numBlocks, blockSize, kvHeads, headDim, dtype });
          for (const sequence of sequences) storeTokens(ops, cache, LAYER, sequence, 0, sequence.context);
          return attend(ops, cache, LAYER, heads, sequences);
        });
      // In bf16 the weights and the output are rounded: each to 2^-9 of numbers up to 1.
      const expected = once(`${dtype} ${JSON.stringify(heads)}`, () => compute(reference));
      expectClose(compute(cpu), expected, { absolute: dtype === 'f32' ? 2e-5 : 2 ** -7 });
    });

    it.each(HEADS)('has the same bits where keys are kept alone and are the values, for %o', (heads) => {
      const { sequences, numBlocks } = makeSequences(new Random(heads.headDim), heads, dtype, SIZES);
      const compute = (keysAreValues: boolean) =>
        cpu.scope(() => {
          const { headDim, kvHeads, blockSize } = heads;
          const shape = { layers: 2, blocks: numBlocks, blockSize, kvHeads, headDim, dtype };
          const cache = cpu.makeKvCache({ ...shape, keysAreValues });
          for (const sequence of sequences) {
            storeTokens(cpu, cache, LAYER, { ...sequence, v: sequence.k }, 0, sequence.context);
          }
          return { bits: attend(cpu, cache, LAYER, heads, sequences), bytes: cache.layerBlockBytes };
        });
      const [twice, once] = [compute(false), compute(true)];
      expect(once.bits).toEqual(twice.bits);
      expect(once.bytes).toBeLessThanOrEqual(twice.bytes / 2);
    });

    it('shows each row the whole sequence where it is bidirectional, with the bits that the row has alone', () => {
      const heads: Heads = {
        headDim: 64,
        kvHeads: 2,
        group: 2,
        blockSize: 16,
        window: null,
        isBidirectional: true,
      };
      const { sequences, numBlocks } = makeSequences(new Random(11), heads, dtype, [
        { context: 700, queries: 700 },
        { context: 33, queries: 33 },
      ]);
      cpu.scope(() => {
        const shape = { layers: 1, blocks: numBlocks, blockSize: 16, kvHeads: 2, headDim: 64, dtype };
        const cache = cpu.makeKvCache(shape);
        for (const one of sequences) storeTokens(cpu, cache, 0, one, 0, one.context);
        const whole = attend(cpu, cache, 0, heads, sequences);
        for (const [index, first] of [
          [0, 0],
          [1, 700],
        ] as const) {
          const one = sequences[index]!;
          const alone = attend(cpu, cache, 0, heads, [one]);
          expect(alone).toEqual(whole.slice(first * 256, (first + one.queries) * 256));
          const last = attend(cpu, cache, 0, heads, [{ ...one, queries: 1 }]);
          expect(last).toEqual(alone.slice(-256));
          const causal = attend(cpu, cache, 0, { ...heads, isBidirectional: false }, [one]);
          expect(causal.slice(-256)).toEqual(last);
          expect(causal.slice(0, 256)).not.toEqual(alone.slice(0, 256));
        }
      });
    });

    it('shows each row as many tokens on both sides in a window, and no other', () => {
      const window = 65;
      const heads: Heads = {
        headDim: 64,
        kvHeads: 2,
        group: 2,
        blockSize: 16,
        window,
        isBidirectional: true,
      };
      const sizes = [
        { context: 700, queries: 700 },
        { context: 33, queries: 33 },
      ];
      const { sequences, numBlocks } = makeSequences(new Random(13), heads, dtype, sizes);
      cpu.scope(() => {
        const shape = { layers: 1, blocks: numBlocks, blockSize: 16, kvHeads: 2, headDim: 64, dtype };
        const cache = cpu.makeKvCache(shape);
        for (const one of sequences) storeTokens(cpu, cache, 0, one, 0, one.context);
        const all = attend(cpu, cache, 0, heads, sequences);
        const [long, short] = [all.slice(0, 700 * 256), all.slice(700 * 256)];
        expect(attend(cpu, cache, 0, heads, [sequences[0]!])).toEqual(long);
        const whole = attend(cpu, cache, 0, { ...heads, window: null }, [sequences[1]!]);
        expect(short).toEqual(whole);
        const row = 500;
        const [from, to] = [row - window + 1, row + window];
        const other = makeSequences(new Random(14), heads, dtype, sizes).sequences[0]!;
        const mixed = { ...sequences[0]!, k: other.k.slice(), v: other.v.slice() };
        for (const name of ['k', 'v'] as const)
          mixed[name].set(sequences[0]![name].subarray(from * 128, to * 128), from * 128);
        storeTokens(cpu, cache, 0, mixed, 0, mixed.context);
        const again = attend(cpu, cache, 0, heads, [mixed]);
        expect(again.slice(row * 256, (row + 1) * 256)).toEqual(long.slice(row * 256, (row + 1) * 256));
        for (const near of [row - 1, row + 1]) {
          const [start, end] = [near * 256, (near + 1) * 256];
          expect(again.slice(start, end)).not.toEqual(long.slice(start, end));
        }
      });
    });

    it.each([null, 300])(
      'shows tokens after them to rows of the sequences that say so alone, in a window of %s',
      (window) => {
        const heads: Heads = { headDim: 64, kvHeads: 2, group: 2, blockSize: 16, window };
        const [begin, end, width] = [100, 370, 256];
        const { sequences, numBlocks } = makeSequences(new Random(15), heads, dtype, [
          { context: 700, queries: 700 },
          { context: 33, queries: 3 },
        ]);
        const [long, short] = [sequences[0]!, sequences[1]!];
        const filled = (ops: Ops) => {
          const shape = { layers: 1, blocks: numBlocks, blockSize: 16, kvHeads: 2, headDim: 64, dtype };
          const cache = ops.makeKvCache(shape);
          for (const one of sequences) storeTokens(ops, cache, 0, one, 0, one.context);
          return cache;
        };
        const parts = [...partsAround(long, begin, end), short];
        const expected = once(`${dtype} ahead in ${window}`, () =>
          reference.scope(() => attend(reference, filled(reference), 0, heads, parts)),
        );
        cpu.scope(() => {
          const cache = filled(cpu);
          const all = attend(cpu, cache, 0, heads, parts);
          expectClose(all, expected, { absolute: dtype === 'f32' ? 2e-5 : 2 ** -7 });
          const rest = { ...long, context: end, queries: 31, seesAhead: true };
          expect(attend(cpu, cache, 0, heads, [short, rest]).slice(3 * width)).toEqual(
            all.slice((end - 31) * width, end * width),
          );
          const causal = attend(cpu, cache, 0, heads, sequences);
          expect(attend(cpu, cache, 0, { ...heads, isBidirectional: false }, parts)).toEqual(causal);
          const partOf = (rows: Float32Array, first: number, last: number) =>
            rows.slice(first * width, last * width);
          for (const [first, last] of [
            [0, begin],
            [end - 1, 703],
          ] as const)
            expect(partOf(all, first, last)).toEqual(partOf(causal, first, last));
          for (const row of [begin, end - 2])
            expect(partOf(all, row, row + 1)).not.toEqual(partOf(causal, row, row + 1));
        });
      },
    );

    it('gives less of the values the larger a sink is, and takes nothing from it', () => {
      const heads: Heads = { headDim: 32, kvHeads: 1, group: 2, blockSize: 16, window: null };
      const { sequences, numBlocks } = makeSequences(new Random(7), heads, dtype, [
        { context: 9, queries: 1 },
      ]);
      const compute = (hasSinks: boolean): Float32Array =>
        cpu.scope(() => {
          const shape = { layers: 1, blocks: numBlocks, blockSize: 16, kvHeads: 1, headDim: 32, dtype };
          const cache = cpu.makeKvCache(shape);
          const ones = { ...sequences[0]!, v: new Float32Array(9 * 32).fill(1) };
          storeTokens(cpu, cache, 0, ones, 0, 9);
          return attend(cpu, cache, 0, { ...heads, hasSinks }, [ones]);
        });
      expect(Math.min(...compute(false))).toBeCloseTo(1, 2);
      const [large, small] = [compute(true)[0]!, compute(true)[32]!];
      // Nine scores near 0 beside sinks of 3 and 1.
      expect(large).toBeLessThan(0.5);
      expect(small).toBeGreaterThan(large + 0.2);
      expect(small).toBeLessThan(0.95);
    });

    it.each([false, true])(
      'reads nothing that an earlier sequence left in a block, not even what is no number (keys are values: %s)',
      (keysAreValues) => {
        const heads: Heads = { headDim: 16, kvHeads: 2, group: 2, blockSize: 16, window: null };
        const random = new Random(9);
        const { sequences, numBlocks } = makeSequences(random, heads, dtype, [{ context: 21, queries: 3 }]);
        const sequence = sequences[0]!;
        const shape = {
          layers: 1,
          blocks: numBlocks,
          blockSize: 16,
          kvHeads: 2,
          headDim: 16,
          dtype,
          keysAreValues,
        };
        const compute = (isDirty: boolean): Float32Array =>
          cpu.scope(() => {
            const cache = cpu.makeKvCache(shape);
            if (isDirty) {
              const width = 32;
              const slots = Int32Array.from({ length: numBlocks * 16 }, (_, slot) => slot);
              const junk = new Float32Array(slots.length * width).fill(Number.NaN);
              const k = cpu.tensor(junk, slots.length, width, 'f32');
              cpu.storeKv(k, keysAreValues ? null : k, beginStepInto(cpu, cache, slots), 0);
            }
            storeTokens(cpu, cache, 0, sequence, 0, sequence.context);
            return attend(cpu, cache, 0, heads, sequences);
          });
        expect(compute(true)).toEqual(compute(false));
      },
    );

    it('keeps exactly what the reference keeps of numbers of every size', () => {
      // A token that sees itself alone gets its own value back.
      const heads: Heads = { headDim: 48, kvHeads: 2, group: 1, blockSize: 32, window: 1 };
      const { sequences, numBlocks } = makeSequences(new Random(4), heads, dtype, [
        { context: 90, queries: 90 },
      ]);
      const sequence = { ...sequences[0]!, v: numbersOfEverySize(90, 96) };
      const compute = (ops: Ops): Float32Array =>
        ops.scope(() => {
          const cache = ops.makeKvCache({
            layers: 1,
            blocks: numBlocks,
            blockSize: 32,
            kvHeads: 2,
            headDim: 48,
            dtype,
          });
          storeTokens(ops, cache, 0, sequence, 0, 90);
          return attend(ops, cache, 0, heads, [sequence]);
        });
      const actual = compute(cpu);
      expect(actual).toEqual(compute(reference));
      expect(actual.some((value) => value !== 0)).toBe(true);
    });

    it('gives no number to those who see a key that is none, and numbers to those before it', () => {
      const heads: Heads = { headDim: 16, kvHeads: 1, group: 3, blockSize: 16, window: null };
      const { sequences, numBlocks } = makeSequences(new Random(5), heads, dtype, [
        { context: 70, queries: 70 },
      ]);
      const k = sequences[0]!.k.slice();
      k[50 * 16 + 3] = Number.NaN;
      const sequence = { ...sequences[0]!, k };
      const rows = cpu.scope(() => {
        const cache = cpu.makeKvCache({
          layers: 1,
          blocks: numBlocks,
          blockSize: 16,
          kvHeads: 1,
          headDim: 16,
          dtype,
        });
        storeTokens(cpu, cache, 0, sequence, 0, 70);
        return attend(cpu, cache, 0, heads, [sequence]);
      });
      expect([...rows].map(Number.isNaN)).toEqual(Array.from(rows, (_, i) => i >= 50 * 48));
    });

    it('finds scores that dwarf all before them, in any chunks of the prompt', () => {
      const heads: Heads = { headDim: 64, kvHeads: 2, group: 3, blockSize: 16, window: null };
      const { headDim, kvHeads, blockSize } = heads;
      const { sequences, numBlocks } = makeSequences(new Random(7), heads, dtype, [
        { context: 600, queries: 600 },
      ]);
      const k = sequences[0]!.k.map((value, i) => (value * Math.floor(i / (headDim * kvHeads))) / 2);
      const sequence = { ...sequences[0]!, k };
      const compute = (ops: Ops, chunks: readonly number[]): Float32Array =>
        ops.scope(() => {
          const cache = ops.makeKvCache({ layers: 1, blocks: numBlocks, blockSize, kvHeads, headDim, dtype });
          let context = 0;
          const parts = chunks.map((queries) => {
            storeTokens(ops, cache, 0, sequence, context, context + queries);
            context += queries;
            return [...attend(ops, cache, 0, heads, [{ ...sequence, context, queries }])];
          });
          return Float32Array.from(parts.flat());
        });
      const whole = compute(cpu, [600]);
      // Where scores are in the hundreds, the last places of their sums count, too.
      const expected = once(`${dtype} that dwarfs`, () => compute(reference, [600]));
      expectClose(whole, expected, { absolute: dtype === 'f32' ? 1e-3 : 2 ** -6 });
      expect(compute(cpu, [1, 299, 250, 49, 1])).toEqual(whole);
    });

    it('tells the bytes of a block', () => {
      const shape = { layers: 1, blocks: 2, blockSize: 16, kvHeads: 2, headDim: 64, dtype };
      const bytes = { f32: 4 * 64, bf16: 2 * 64, f16: 2 * 64, fp8: 64, int8: 64 + 4 }[dtype];
      expect(cpu.makeKvCache(shape).layerBlockBytes).toBe(2 * 2 * 16 * bytes);
      expect(reference.makeKvCache(shape).layerBlockBytes).toBe(2 * 2 * 16 * bytes);
    });
  });
});

describeEachIsa('attention over an fp8 cache', (isa) => {
  const cpu = openCpu(isa);
  afterAll(() => cpu.close());

  it('reads each number of e4m3 as it is, and what is none as none', () => {
    const heads: Heads = { headDim: 128, kvHeads: 2, group: 1, blockSize: 16, window: null };
    const numbers = new Float32Array(256);
    unpackE4m3(
      Uint8Array.from(numbers, (_, code) => code),
      numbers,
    );
    expect(numbers.filter(Number.isNaN)).toHaveLength(2);
    const sequence = { k: numbers, v: numbers, q: new Float32Array(256), blocks: Int32Array.of(0) };
    const read = cpu.scope(() => {
      const cache = cpu.makeKvCache({
        layers: 1,
        blocks: 1,
        blockSize: 16,
        kvHeads: 2,
        headDim: 128,
        dtype: 'fp8',
      });
      // A key that is no number would leave no weight.
      const keys = numbers.map((value) => (Number.isNaN(value) ? 0 : value));
      const one = { ...sequence, k: keys, context: 1, queries: 1 };
      storeTokens(cpu, cache, 0, one, 0, 1);
      return attend(cpu, cache, 0, heads, [one]);
    });
    // Sums have no negative zero.
    expect(read).toEqual(numbers.map((value) => value + 0));
  });
});

/** Rows of normal numbers of all sizes that fp8 tells apart and beyond, the size of a row's largest among them. */
function numbersOfEverySize(rows: number, cols: number): Float32Array {
  const random = new Random(6);
  return Float32Array.from({ length: rows * cols }, (_, i) => {
    const largest = 2 ** ((Math.floor(i / cols) % 24) - 12);
    return i % 7 === 0 ? 0 : (random.next() * 2 - 1) * largest * 2 ** -random.integer(0, 6);
  });
}
