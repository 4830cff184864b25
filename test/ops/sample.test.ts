// Sampling of the native backend against its definition.

import { afterAll, expect, it } from 'vitest';
import { NO_TOKEN, type Ops, type SamplingRows } from '../../src/ops/ops.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { describeEachIsa, openCpu, Random } from './native-backends.ts';

interface Settings {
  readonly temperature: number;
  readonly topK?: number;
  readonly topP?: number;
  readonly minP?: number;
}

function rowsOf(count: number, settings: Settings, uniform: (row: number) => number): SamplingRows {
  const { temperature, topK = 0, topP = 1, minP = 0 } = settings;
  return {
    temperature: new Float32Array(count).fill(temperature),
    topK: new Int32Array(count).fill(topK),
    topP: new Float32Array(count).fill(topP),
    minP: new Float32Array(count).fill(minP),
    uniform: Float64Array.from({ length: count }, (_, row) => uniform(row)),
  };
}

describeEachIsa('sampling', (isa) => {
  const cpu = openCpu(isa);
  const reference = new ReferenceOps();
  afterAll(() => cpu.close());

  const pick = (ops: Ops, logits: Float32Array, vocab: number, rows: SamplingRows): Int32Array =>
    ops.scope(() => ops.sample(ops.tensor(logits, logits.length / vocab, vocab, 'f32'), rows).read());

  const compare = (
    vocab: number,
    settings: Settings,
    spread: number,
    shape = (logit: number) => logit,
  ): void => {
    const random = new Random(vocab);
    const rows = 24;
    const logits = random.floats(rows * vocab).map((value) => shape(value * spread));
    const draws = rowsOf(rows, settings, () => random.next());
    expect(pick(cpu, logits, vocab, draws)).toEqual(pick(reference, logits, vocab, draws));
  };

  it.each([1, 5, 16, 100, 1000, 40_000])('greedy takes the largest of %i logits', (vocab) => {
    compare(vocab, { temperature: 0 }, 10);
  });

  it('greedy takes the lowest id among equals, in whatever piece of the row', () => {
    const vocab = 50_000;
    for (const [first, second] of [
      [3, 40],
      [16_383, 16_384],
      [7, 49_999],
    ] as const) {
      const logits = new Float32Array(vocab).fill(-1);
      logits[first] = logits[second] = 2;
      const rows = rowsOf(1, { temperature: 0 }, () => 0);
      expect([...pick(cpu, logits, vocab, rows)]).toEqual([first]);
    }
  });

  it.each([
    { temperature: 1 },
    { temperature: 0.5, topK: 1 },
    { temperature: 2, topK: 7 },
    { temperature: 2, topK: 400 },
    { temperature: 3, topK: 2900, topP: 0.99 },
    { temperature: 0.8, topP: 0.9 },
    { temperature: 1.5, topP: 0.1 },
    { temperature: 4, topP: 0.97 },
    { temperature: 1, topP: 0.97 },
    { temperature: 1, minP: 0.2 },
    { temperature: 0.7, topK: 40, topP: 0.95, minP: 0.01 },
  ])('draws as defined with %o', (settings) => {
    for (const vocab of [1, 3, 17, 300, 5000]) {
      compare(vocab, settings, 6);
      compare(vocab, settings, 6, (logit) => Math.round(logit * 4) / 4);
      compare(vocab, settings, 6, (logit) => (logit > 5.99 ? 7.6 : logit / 10));
      compare(vocab, settings, 6, (logit) => (logit < 5 ? Number.NEGATIVE_INFINITY : logit));
    }
  });

  it('keeps every logit that equals the k-th, and cuts equals by id for top_p', () => {
    const logits = Float32Array.from([1, 3, 2, 3, 2, 2, 0]);
    for (const settings of [
      { temperature: 1, topK: 3 },
      { temperature: 1, topP: 0.6 },
    ]) {
      for (let i = 0; i < 50; i += 1) {
        const rows = rowsOf(1, settings, () => i / 50);
        expect(pick(cpu, logits, 7, rows)).toEqual(pick(reference, logits, 7, rows));
      }
    }
  });

  it('draws no token next to impossible where sums of weights are rounded up', () => {
    const vocab = 300;
    const logits = new Float32Array(vocab).fill(-80);
    logits[0] = 0;
    // The float nearest to the sum of its weight and that of token 0, which is 1, is further above 1.
    logits[16] = Math.log(7e-8);
    for (const short of [1e-7, 3e-8, 1e-8, 1e-9, 1e-12]) {
      const rows = rowsOf(1, { temperature: 1 }, () => 1 - short);
      expect(pick(cpu, logits, vocab, rows)).toEqual(pick(reference, logits, vocab, rows));
    }
  });

  it('spreads its draws as the weights say', () => {
    const probabilities = [0.1, 0.2, 0.3, 0.4];
    const logits = Float32Array.from(probabilities, Math.log);
    const draws = 2000;
    const repeated = new Float32Array(draws * 4).map((_, i) => logits[i % 4]!);
    const rows = rowsOf(draws, { temperature: 1 }, (row) => (row + 0.5) / draws);
    const counts = [0, 0, 0, 0];
    for (const id of pick(cpu, repeated, 4, rows)) counts[id]! += 1;
    expect(counts.map((count) => count / draws)).toEqual(probabilities);
  });

  it('gives no token where a logit is NaN or infinite, and the others in the rows beside it', () => {
    const vocab = 40_000;
    const sound = new Random(9).floats(vocab);
    for (const broken of [Number.NaN, -Number.NaN, Number.POSITIVE_INFINITY]) {
      for (const place of [0, 7, 16_384, vocab - 1]) {
        const row = sound.slice();
        row[place] = broken;
        for (const settings of [
          { temperature: 0 },
          { temperature: 1 },
          { temperature: 1, topK: 5, topP: 0.5 },
        ]) {
          const rows = rowsOf(2, settings, () => 0.5);
          const [before] = pick(
            cpu,
            sound,
            vocab,
            rowsOf(1, settings, () => 0.5),
          );
          expect([...pick(cpu, Float32Array.of(...row, ...sound), vocab, rows)]).toEqual([NO_TOKEN, before]);
          expect([
            ...pick(
              reference,
              row,
              vocab,
              rowsOf(1, settings, () => 0.5),
            ),
          ]).toEqual([NO_TOKEN]);
        }
      }
    }
  });

  it('takes -Infinity for a token that is forbidden, be it all but one', () => {
    const logits = new Float32Array(100).fill(Number.NEGATIVE_INFINITY);
    logits[70] = -3;
    for (const settings of [{ temperature: 0 }, { temperature: 1 }, { temperature: 1, topK: 5, topP: 0.5 }]) {
      for (const ops of [cpu, reference]) {
        expect([
          ...pick(
            ops,
            logits,
            100,
            rowsOf(1, settings, () => 0.5),
          ),
        ]).toEqual([70]);
      }
    }
  });
});
