// Mixtures of experts of the native backend: against their definition, and the law that a token is alone with its experts.

import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import type { Ops } from '../../src/ops/ops.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { WeightFolder } from '../helpers/weight-file.ts';
import {
  compute,
  type Input,
  load,
  makeInput,
  makeParts,
  NORMALIZED,
  ROUTINGS,
  upTo,
} from './expert-cases.ts';
import { describeEachIsa, expectClose, formats, openCpu, Random, takesUnrounded } from './native-backends.ts';

const folder = new WeightFolder();
afterAll(() => folder.remove());

describeEachIsa('mixtures of experts', (isa) => {
  const cpu = openCpu(isa);
  const alone = openCpu(isa, 1);
  const reference = new ReferenceOps();
  afterAll(() => {
    cpu.close();
    alone.close();
  });

  const cases = formats.flatMap((format) => [
    [format, 'with gates', true] as const,
    [format, 'without gates', false] as const,
  ]);

  it.each(cases)(
    'of %s %s are what their definition says, however experts are chosen',
    (format, _, hasGate) => {
      const random = new Random(1);
      const [count, k, inner] = [8, 72, 41];
      const parts = makeParts(folder, random, count, k, inner, hasGate);
      const [own, defined] = [load(cpu, parts, format), load(reference, parts, format)];
      for (const routing of ROUTINGS) {
        for (const rows of [1, 5, 40]) {
          const input = makeInput(random, rows, k, count);
          const actual = compute(cpu, own, routing, input, upTo(rows));
          // Numbers between the products are rounded to bf16 on the way, or quantised, which may go the other way; so are those of codes,
          // or not.
          const isUnrounded = takesUnrounded(isa, format);
          const relative = format === 'f32' ? 1e-4 : isUnrounded ? 2 ** -5 : 2 ** -6;
          const expected = compute(reference, defined, routing, input, upTo(rows));
          const size = Math.sqrt(expected.reduce((sum, value) => sum + value * value, 0) / expected.length);
          expectClose(actual, expected, { absolute: size * relative, relative });
        }
      }
    },
  );

  it.each(cases)(
    'of %s %s give a token the same bits in any batch and on any number of threads',
    (format, _, hasGate) => {
      const random = new Random(2);
      const [count, k, inner, tokens] = [6, 64, 48, 50];
      const parts = makeParts(folder, random, count, k, inner, hasGate);
      const [experts, others] = [load(cpu, parts, format), load(alone, parts, format)];
      const input = makeInput(random, tokens, k, count);
      const whole = compute(cpu, experts, NORMALIZED, input, upTo(tokens));
      expect(compute(alone, others, NORMALIZED, input, upTo(tokens))).toEqual(whole);
      const subset = fc.uniqueArray(fc.nat(tokens - 1), { minLength: 1, maxLength: tokens });
      fc.assert(
        fc.property(subset, (rows) => {
          const got = compute(cpu, experts, NORMALIZED, input, rows);
          for (const [i, row] of rows.entries()) {
            expect(got.subarray(i * k, (i + 1) * k)).toEqual(whole.subarray(row * k, (row + 1) * k));
          }
        }),
        { numRuns: 20 },
      );
    },
  );

  it('have a bias that takes part in the choice alone', () => {
    const random = new Random(3);
    const parts = makeParts(folder, random, 4, 32, 16);
    const input: Input = { x: random.floats(32), logits: Float32Array.of(2, 1, 0, -1) };
    const run = (ops: Ops, bias: Float32Array | null, topK: number) => {
      const routing = {
        topK,
        scores: 'sigmoid',
        isNormalized: false,
        bias: bias && ops.makeVector(bias),
      } as const;
      return compute(ops, load(ops, parts, 'f32'), routing, input, [0]);
    };
    const last = Float32Array.of(0, 0, 0, 5);
    expectClose(run(cpu, last, 1), run(reference, last, 1), { absolute: 1e-4 });
    expect(run(cpu, last, 1)).not.toEqual(run(cpu, null, 1));
    expect(run(cpu, last, 4)).toEqual(run(cpu, null, 4));
  });

  it('have factors that take part in the weights alone', () => {
    const random = new Random(7);
    const parts = makeParts(folder, random, 4, 32, 16);
    const input: Input = { x: random.floats(32), logits: Float32Array.of(2, 1, 0, -1) };
    const run = (ops: Ops, factors: Float32Array | null, topK: number) => {
      const routing = { ...NORMALIZED, topK, factors: factors && ops.makeVector(factors) };
      return compute(ops, load(ops, parts, 'f32'), routing, input, [0]);
    };
    const some = Float32Array.of(0.5, 3, 100, 100);
    expectClose(run(cpu, some, 2), run(reference, some, 2), { absolute: 1e-4 });
    expect(run(cpu, some, 1)).toEqual(run(cpu, null, 1).map((value) => value / 2));
    expect(run(cpu, Float32Array.of(1, 1, 7, 7), 2)).toEqual(run(cpu, null, 2));
  });

  it('keep a token whose logits are no numbers to itself', () => {
    const random = new Random(4);
    const experts = load(cpu, makeParts(folder, random, 4, 32, 16), 'bf16');
    const input = makeInput(random, 3, 32, 4);
    const whole = compute(cpu, experts, NORMALIZED, input, [0, 1, 2]);
    input.logits.fill(Number.NaN, 4, 8);
    const got = compute(cpu, experts, NORMALIZED, input, [0, 1, 2]);
    expect(got.subarray(32, 64).every(Number.isNaN)).toBe(true);
    expect([...got.subarray(0, 32), ...got.subarray(64)]).toEqual([
      ...whole.subarray(0, 32),
      ...whole.subarray(64),
    ]);
  });

  it('compute no token at all', () => {
    const experts = load(cpu, makeParts(folder, new Random(5), 2, 32, 16), 'bf16');
    expect(
      compute(cpu, experts, NORMALIZED, { x: new Float32Array(), logits: new Float32Array() }, []),
    ).toEqual(new Float32Array());
  });

  describe.each([
    ['native', cpu],
    ['reference', reference],
  ] as const)('of the %s backend', (_, ops) => {
    const random = new Random(6);
    const experts = load(ops, makeParts(folder, random, 4, 32, 16), 'f32');
    const other = load(ops, makeParts(folder, random, 1, 48, 16), 'f32');
    const plain = load(ops, makeParts(folder, random, 1, 32, 16, false), 'f32');

    it.each([
      ['more experts a token than there are', experts, { ...NORMALIZED, topK: 5 }, /topK from 1 to 4, got 5/],
      ['no experts', [], NORMALIZED, /at least one expert, got none/],
      ['experts of several shapes', [...experts, ...other], NORMALIZED, /experts of gate and up \[16, 32\]/],
      ['experts of which some have a gate', [...plain, ...experts], NORMALIZED, /experts of up \[16, 32\]/],
      [
        'groups that hold too few experts',
        experts,
        { ...NORMALIZED, topK: 2, groups: { count: 4, kept: 1, best: 1 } },
        /groups of 4 experts, with 2 to choose, got 1 of 4 groups/,
      ],
      [
        'factors of other experts',
        experts,
        { ...NORMALIZED, factors: ops.makeVector(new Float32Array(3)) },
        /factors \[4\], got \[3\]/,
      ],
    ] as const)('refuse %s', (_title, wrong, routing, message) => {
      expect(() => ops.makeExperts(wrong, routing, 'silu')).toThrow(message);
    });

    it('refuse an activation of gates where there are none', () => {
      const routing = { ...NORMALIZED, topK: 1 };
      expect(() => ops.makeExperts(plain, routing, 'clamped_swiglu')).toThrow(/experts with a gate/);
    });
  });
});
