// Mixtures of experts of the CUDA backend, over an emulated driver: against their definition, and that a row is alone with its experts.

import { afterAll, expect, it } from 'vitest';
import { unpackBlocks } from '../../src/ops/block-formats.ts';
import { formatName, type WeightFormat } from '../../src/ops/dtype.ts';
import type { Routing } from '../../src/ops/experts.ts';
import type { Ops } from '../../src/ops/ops.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { type CodesWeightSource, type LinearPart, plainPart } from '../../src/ops/weights.ts';
import { describeCuda, needsCudaEmulators, openCuda } from '../helpers/cuda-emulator.ts';
import { LaunchedKernels } from '../helpers/launched-kernels.ts';
import { randomBlocks } from '../helpers/random-blocks.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import {
  compute,
  load,
  makeInput,
  makeParts,
  NORMALIZED,
  type Parts,
  ROUTINGS,
  upTo,
} from './expert-cases.ts';
import { expectClose, Random } from './native-backends.ts';
import { CODE_FORMATS, decoded, randomCodes } from './random-codes.ts';

const folder = new WeightFolder();
const launched = new LaunchedKernels();
afterAll(() => {
  folder.remove();
  launched.remove();
});

describeCuda('mixtures of experts of the CUDA backend', () => {
  const cuda = openCuda();
  const reference = new ReferenceOps();
  afterAll(() => cuda.close());

  it.each(ROUTINGS)('are what their definition says, with gates and without: %j', (routing) => {
    const random = new Random(1);
    const [count, k, inner] = [8, 72, 41];
    for (const [rows, hasGate] of [1, 5, 40].flatMap((some) => [
      [some, true] as const,
      [some, false] as const,
    ])) {
      const parts = makeParts(folder, random, count, k, inner, hasGate);
      const [own, defined] = [load(cuda, parts, 'bf16'), load(reference, parts, 'bf16')];
      const input = makeInput(random, rows, k, count);
      const actual = compute(cuda, own, routing, input, upTo(rows));
      const expected = compute(reference, defined, routing, input, upTo(rows));
      const size = Math.sqrt(expected.reduce((sum, value) => sum + value * value, 0) / expected.length);
      expectClose(actual, expected, { absolute: size * 2 ** -6, relative: 2 ** -6 });
    }
  });

  it('choose among many experts, by scores that differ in their last bit, or are equal', () => {
    const random = new Random(2);
    const count = 70;
    const parts = makeParts(folder, random, count, 16, 8);
    const [own, defined] = [load(cuda, parts, 'bf16'), load(reference, parts, 'bf16')];
    const input = makeInput(random, 3, 16, count);
    input.logits.fill(1, 0, count);
    input.logits.set([1.0000001, 1.0000002, 1.0000001], 35);
    input.logits.fill(Number.NEGATIVE_INFINITY, count + 9, 2 * count - 9);
    const bias = random.floats(count).map((value) => value / 50);
    for (const topK of [2, 17]) {
      const [actual, expected] = ([cuda, reference] as const).map((ops) => {
        const routing = { ...NORMALIZED, topK, bias: ops.makeVector(bias) };
        const experts = ops === cuda ? own : defined;
        return [NORMALIZED, routing].map((one) => compute(ops, experts, { ...one, topK }, input, upTo(3)));
      });
      for (const [i, numbers] of actual!.entries()) {
        expectClose(numbers, expected![i]!, { absolute: 0.02, relative: 2 ** -6 });
      }
    }
  });

  it('have factors that take part in the weights alone', () => {
    const random = new Random(7);
    const parts = makeParts(folder, random, 4, 32, 16);
    const input = makeInput(random, 3, 32, 4);
    const run = (factors: readonly number[] | null) => {
      const routing = {
        ...NORMALIZED,
        topK: 2,
        factors: factors && cuda.makeVector(Float32Array.from(factors)),
      };
      return compute(cuda, load(cuda, parts, 'bf16'), routing, input, upTo(3));
    };
    expect(run([2, 2, 2, 2])).toEqual(run(null).map((value) => 2 * value));
    expect(run([1, 1, 1, 1])).toEqual(run(null));
    expect(run([1, 2, 3, 4])).not.toEqual(run(null));
  });

  const int4: WeightFormat = { kind: 'int4', groupSize: 32, hasZeros: false };

  it.each([
    ['bf16', true],
    ['bf16', false],
    ['int8', true],
    ['int8', false],
    [int4, true],
    [int4, false],
  ] as const)(
    'of %j, with gates: %s, give a token the same bits in any batch, few of them or many',
    (format, hasGate) => {
      const random = new Random(3);
      // An expert has 133 of them.
      const [count, k, inner, tokens] = [3, 520, 24, 200];
      const experts = load(cuda, makeParts(folder, random, count, k, inner, hasGate), format);
      const input = makeInput(random, tokens, k, count);
      const whole = compute(cuda, experts, NORMALIZED, input, upTo(tokens));
      for (const rows of [[0], [69, 3], [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16], upTo(30), upTo(70)]) {
        const got = compute(cuda, experts, NORMALIZED, input, rows);
        for (const [i, row] of rows.entries()) {
          expect(got.subarray(i * k, (i + 1) * k)).toEqual(whole.subarray(row * k, (row + 1) * k));
        }
      }
    },
  );

  it('keep a token whose logits are no numbers to itself', () => {
    const random = new Random(4);
    const experts = load(cuda, makeParts(folder, random, 4, 32, 16), 'bf16');
    const input = makeInput(random, 3, 32, 4);
    const whole = compute(cuda, experts, NORMALIZED, input, upTo(3));
    input.logits.fill(Number.NaN, 4, 8);
    const got = compute(cuda, experts, NORMALIZED, input, upTo(3));
    expect(got.subarray(32, 64).every(Number.isNaN)).toBe(true);
    expect([...got.subarray(0, 32), ...got.subarray(64)]).toEqual([
      ...whole.subarray(0, 32),
      ...whole.subarray(64),
    ]);
  });

  /** What experts of `first` and of `second` weights compute of the same tokens. */
  function mixtures(first: readonly Parts[], format: WeightFormat, second: readonly Parts[], k: number) {
    const input = makeInput(new Random(6), 20, k, first.length);
    const experts = [load(cuda, first, format), load(cuda, second, 'bf16')];
    return experts.map((one) => compute(cuda, one, NORMALIZED, input, upTo(20)));
  }

  it.each(CODE_FORMATS.map((format) => [formatName(format), format] as const))(
    'of codes of %s have the bits of the numbers that they encode',
    (_, format) => {
      const random = new Random(7);
      const [k, inner] = [72, 41];
      const published = (n: number, cols: number) => {
        const codes = randomCodes(folder, random, format, n, cols);
        const bias = folder.write([n], random.floats(n));
        return [
          { weight: codes, bias },
          { ...decoded(folder, codes), bias },
        ] as const;
      };
      const experts = upTo(3).map(() => [published(inner, k), published(inner, k), published(k, inner)]);
      const partsOf = (which: 0 | 1) =>
        experts.map(([gate, up, down]) => ({ gate: gate![which], up: up![which], down: down![which] }));
      const [actual, expected] = mixtures(partsOf(0), format, partsOf(1), k);
      expect(actual).toEqual(expected);
    },
  );

  it.each(['mxfp4', 'q4_k', 'q6_k'] as const)('of blocks of %s have the bits of their numbers', (format) => {
    const random = new Random(8);
    const k = 256;
    const published = () => {
      const bytes = randomBlocks(format, k * k, () => random.next());
      const numbers = new Float32Array(k * k);
      unpackBlocks(format, bytes, numbers);
      const tensor = folder.writeBytes([k, k], bytes, format);
      const blocks: LinearPart = { weight: { kind: 'blocks', format, tensor }, bias: null };
      return [blocks, plainPart(folder.write([k, k], numbers))] as const;
    };
    const experts = upTo(2).map(() => [published(), published(), published()]);
    const partsOf = (which: 0 | 1) =>
      experts.map(([gate, up, down]) => ({ gate: gate![which], up: up![which], down: down![which] }));
    const [actual, expected] = mixtures(partsOf(0), format, partsOf(1), k);
    expect(actual).toEqual(expected);
  });

  it('of int8 are what their definition says', () => {
    const random = new Random(9);
    const [count, k, inner] = [4, 73, 41];
    const parts = makeParts(folder, random, count, k, inner);
    const input = makeInput(random, 20, k, count);
    const [actual, expected] = [cuda, reference].map((ops) =>
      compute(ops, load(ops, parts, 'int8'), NORMALIZED, input, upTo(20)),
    );
    // What lies between may be rounded to another neighbour, and then to another whole number.
    const size = Math.sqrt(expected!.reduce((sum, value) => sum + value * value, 0) / expected!.length);
    expectClose(actual!, expected!, { absolute: size * 2 ** -6, relative: 2 ** -6 });
  });

  it('of float32 are what their definition says, alone and beside others', () => {
    const random = new Random(11);
    const [count, k, inner] = [6, 72, 41];
    const parts = makeParts(folder, random, count, k, inner);
    const input = makeInput(random, 40, k, count);
    const [whole, expected] = [cuda, reference].map((ops) =>
      compute(ops, load(ops, parts, 'f32'), NORMALIZED, input, upTo(40)),
    );
    expectClose(whole!, expected!, { absolute: 1e-3, relative: 1e-5 });
    const alone = compute(cuda, load(cuda, parts, 'f32'), NORMALIZED, input, [7]);
    expect(alone).toEqual(whole!.subarray(7 * k, 8 * k));
  });

  it('of several formats in one layer are what each is', () => {
    const random = new Random(12);
    const [count, k, inner] = [3, 64, 32];
    const parts = makeParts(folder, random, count, k, inner);
    const formats: WeightFormat[] = ['bf16', 'int8', { kind: 'int4', groupSize: 32, hasZeros: false }];
    const mixed = (ops: Ops) => parts.flatMap((part, i) => load(ops, [part], formats[i]!));
    // One expert a token: its output alone.
    const routing: Routing = { topK: 1, scores: 'softmax', isNormalized: true };
    const input = makeInput(random, 30, k, count);
    const actual = compute(cuda, mixed(cuda), routing, input, upTo(30));
    for (let row = 0; row < 30; row += 1) {
      const logits = input.logits.subarray(row * count, (row + 1) * count);
      const format = formats[logits.indexOf(Math.max(...logits))]!;
      const own = compute(cuda, load(cuda, parts, format), routing, input, [row]);
      expect(actual.subarray(row * k, (row + 1) * k)).toEqual(own);
    }
  });

  it('of a rank are its share of the sum of all', () => {
    const random = new Random(13);
    const [total, k] = [12, 40];
    const parts = makeParts(folder, random, total, k, 24);
    const input = makeInput(random, 20, k, total);
    const routing: Routing = { topK: 5, scores: 'softmax', isNormalized: true };
    const share = (first: number, end: number) =>
      cuda.scope(() => {
        const own = load(cuda, parts.slice(first, end), 'bf16');
        const mixture = cuda.makeExperts(own, routing, 'silu', { first, total });
        const x = cuda.tensor(input.x, 20, k, 'bf16');
        return cuda.read(cuda.experts(x, cuda.tensor(input.logits, 20, total, 'f32'), mixture));
      });
    const [left, right, whole] = [share(0, total / 2), share(total / 2, total), share(0, total)];
    expect(left.map((value, i) => Math.fround(value + right[i]!))).toEqual(whole);
  });

  it('of groups of columns anywhere, others for each expert, are what each is', () => {
    const random = new Random(10);
    const [count, k, inner] = [3, 96, 64];
    const format = { kind: 'int4', groupSize: 32, hasZeros: false } as const;
    const ordered = (cols: number) => {
      const groups = Int32Array.from(random.permutation(cols), (place) => Math.floor(place / 32));
      return folder.writeBytes([cols], new Uint8Array(groups.buffer), 'i32');
    };
    const part = (n: number, cols: number, inputGroups: CodesWeightSource['inputGroups']): LinearPart => ({
      weight: { ...randomCodes(folder, random, format, n, cols), inputGroups },
      bias: null,
    });
    const experts = upTo(count).flatMap((expert) => {
      // The last one has its columns in their order.
      const order = (cols: number) => (expert === count - 1 ? null : ordered(cols));
      const shared = order(k);
      const parts = {
        gate: part(inner, k, shared),
        up: part(inner, k, shared),
        down: part(k, inner, order(inner)),
      };
      return load(cuda, [parts], format);
    });
    // One expert a token: its output alone.
    const routing: Routing = { topK: 1, scores: 'softmax', isNormalized: true };
    const input = makeInput(random, 40, k, count);
    const actual = compute(cuda, experts, routing, input, upTo(40));
    for (let row = 0; row < 40; row += 1) {
      const logits = input.logits.subarray(row * count, (row + 1) * count);
      const expert = experts[logits.indexOf(Math.max(...logits))]!;
      if (!('gateUp' in expert)) throw new Error('these have gates');
      const own = cuda.scope(() => {
        const x = cuda.tensor(input.x.subarray(row * k, (row + 1) * k), 1, k, 'bf16');
        return cuda.read(cuda.linear(cuda.gateUp(x, expert.gateUp, 'silu'), expert.down));
      });
      expect(actual.subarray(row * k, (row + 1) * k)).toEqual(own);
    }
  });

  it('compute no token at all', () => {
    const experts = load(cuda, makeParts(folder, new Random(5), 2, 32, 16), 'bf16');
    const none = { x: new Float32Array(), logits: new Float32Array() };
    expect(compute(cuda, experts, NORMALIZED, none, [])).toEqual(new Float32Array());
  });

  it('have launched each of their kernels by now', needsCudaEmulators, () => {
    expect(launched.lacking(/^svc(?:GroupedLinear|CodedGroups|WholeGroups)\d/)).toEqual([]);
  });
});
