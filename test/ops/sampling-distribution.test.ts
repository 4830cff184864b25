// What sampling draws, over many draws, against the exact probabilities: chi-square on every backend of this machine.

import { afterAll, describe, expect, it } from 'vitest';
import type { Ops } from '../../src/ops/ops.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { uniform } from '../../src/sampling/random-stream.ts';
import { isas, openCpu } from './native-backends.ts';

const backends: readonly (readonly [string, Ops])[] = [
  ['reference', new ReferenceOps()],
  ...isas.map((isa): [string, Ops] => [isa, openCpu(isa)]),
];
afterAll(() => {
  for (const [, ops] of backends) ops.close();
});

const LOGITS = [1.5, 0.2, -1, 2.25, 0.2, -3, 1, 0.75, -0.5, 2, -2, 0];
const NUM_DRAWS = 40_000;
const ROWS_AT_ONCE = 4_000;

interface Settings {
  readonly temperature?: number;
  readonly topK?: number;
  readonly topP?: number;
  readonly minP?: number;
  readonly repetition?: number;
  readonly frequency?: number;
  readonly presence?: number;
}

/** Tokens that the penalties have seen, and how often the answer has them. */
const SEEN: readonly (readonly [id: number, count: number])[] = [
  [0, 3],
  [2, 0],
  [3, 1],
  [5, 2],
];

/** By the definition of each parameter, in double precision and without the code under test. */
function exactProbabilities(settings: Settings): number[] {
  const { temperature = 1, topK = 0, topP = 1, minP = 0 } = settings;
  const scaled = penalised(settings).map((logit) => logit / temperature);
  const most = Math.max(...scaled);
  let weights = scaled.map((logit) => (Math.exp(logit - most) < minP ? 0 : Math.exp(logit - most)));
  const kth = weights.toSorted((a, b) => b - a)[topK - 1] ?? 0;
  weights = weights.map((weight) => (weight < kth ? 0 : weight));
  const total = weights.reduce((a, b) => a + b);
  const byWeight = weights
    .map((weight, id) => ({ weight, id }))
    .toSorted((a, b) => b.weight - a.weight || a.id - b.id);
  let sum = 0;
  for (const { weight, id } of byWeight) {
    if (sum >= topP * total) weights[id] = 0;
    sum += weight;
  }
  const kept = weights.reduce((a, b) => a + b);
  return weights.map((weight) => weight / kept);
}

function penalised({ repetition = 1, frequency = 0, presence = 0 }: Settings): number[] {
  const logits = [...LOGITS];
  for (const [id, count] of SEEN) {
    const logit = logits[id]!;
    logits[id] =
      (logit > 0 ? logit / repetition : logit * repetition) - count * frequency - (count > 0 ? presence : 0);
  }
  return logits;
}

function drawCounts(ops: Ops, settings: Settings): number[] {
  const counts = LOGITS.map(() => 0);
  for (let first = 0; first < NUM_DRAWS; first += ROWS_AT_ONCE) {
    for (const id of drawRows(ops, settings, first)) counts[id]! += 1;
  }
  return counts;
}

/** As a batch of requests would be drawn: one random number each, from the stream that requests use. */
function drawRows(ops: Ops, settings: Settings, first: number): Int32Array {
  const {
    temperature = 1,
    topK = 0,
    topP = 1,
    minP = 0,
    repetition = 1,
    frequency = 0,
    presence = 0,
  } = settings;
  const numbers = <T extends { fill(value: number): T }>(array: T, value: number): T => array.fill(value);
  const rows = Int32Array.from({ length: ROWS_AT_ONCE }, (_, row) => row);
  const perRow = (value: number) => numbers(new Float32Array(ROWS_AT_ONCE), value);
  return ops.scope(() => {
    const values = Float32Array.from(
      { length: ROWS_AT_ONCE * LOGITS.length },
      (_, i) => LOGITS[i % LOGITS.length]!,
    );
    const logits = ops.tensor(values, ROWS_AT_ONCE, LOGITS.length, 'f32');
    ops.editLogits(logits, {
      rows,
      starts: Int32Array.from({ length: ROWS_AT_ONCE + 1 }, (_, row) => row * SEEN.length),
      ids: repeat(SEEN.map(([id]) => id)),
      biases: new Float32Array(ROWS_AT_ONCE * SEEN.length),
      counts: repeat(SEEN.map(([, count]) => count)),
      repetition: perRow(repetition),
      frequency: perRow(frequency),
      presence: perRow(presence),
    });
    return ops
      .sample(logits, {
        temperature: perRow(temperature),
        topK: numbers(new Int32Array(ROWS_AT_ONCE), topK),
        topP: perRow(topP),
        minP: perRow(minP),
        uniform: Float64Array.from(rows, (row) => uniform(1, 2, first + row)),
      })
      .read();
  });
}

function repeat(values: readonly number[]): Int32Array {
  return Int32Array.from({ length: ROWS_AT_ONCE * values.length }, (_, i) => values[i % values.length]!);
}

/** Value that chi-square with `freedom` degrees exceeds once in a million (Wilson and Hilferty's approximation). */
function limitOf(freedom: number): number {
  const spread = 2 / (9 * freedom);
  return freedom * (1 - spread + 4.75 * Math.sqrt(spread)) ** 3;
}

const CASES: readonly (readonly [string, Settings])[] = [
  ['the plain softmax', {}],
  ['a low temperature', { temperature: 0.4 }],
  ['a high temperature', { temperature: 2.5 }],
  ['top_k', { topK: 5 }],
  ['top_p', { topP: 0.7 }],
  ['min_p', { minP: 0.15 }],
  ['all filters together', { temperature: 0.8, topK: 8, topP: 0.9, minP: 0.05 }],
  ['the repetition penalty', { repetition: 1.6 }],
  ['frequency and presence penalties', { frequency: 0.4, presence: 0.6 }],
  ['everything', { temperature: 1.2, topK: 9, topP: 0.95, repetition: 1.2, frequency: -0.3, presence: 0.5 }],
];

describe.each(backends)('sampling on %s', (_, ops) => {
  it.each(CASES)('follows the exact probabilities of %s', (_name, settings) => {
    const probabilities = exactProbabilities(settings);
    const counts = drawCounts(ops, settings);
    const possible = probabilities.flatMap((probability, id) => (probability > 0 ? [id] : []));
    const drawn = possible.reduce((sum, id) => sum + counts[id]!, 0);
    expect(drawn).toBe(NUM_DRAWS);
    const statistic = possible.reduce((sum, id) => {
      const expected = NUM_DRAWS * probabilities[id]!;
      return sum + (counts[id]! - expected) ** 2 / expected;
    }, 0);
    expect(statistic).toBeLessThan(limitOf(possible.length - 1));
  });
});
