// Mixtures of experts for tests: weights of random numbers, ways to choose, and the op over chosen rows.

import type { Activation } from '../../src/ops/activation.ts';
import type { WeightFormat } from '../../src/ops/dtype.ts';
import type { Expert, Routing } from '../../src/ops/experts.ts';
import type { Ops } from '../../src/ops/ops.ts';
import { type LinearPart, plainPart } from '../../src/ops/weights.ts';
import type { WeightFolder } from '../helpers/weight-file.ts';
import type { Random } from './native-backends.ts';

export const NORMALIZED: Routing = { topK: 2, scores: 'softmax', isNormalized: true };
export const ROUTINGS: readonly Routing[] = [
  NORMALIZED,
  { topK: 3, scores: 'softmax', isNormalized: false, scale: 1.5 },
  { topK: 1, scores: 'sigmoid', isNormalized: false },
  { topK: 2, scores: 'sigmoid', isNormalized: false, weighsInputs: true },
  { topK: 3, scores: 'sigmoid', isNormalized: true, groups: { count: 4, kept: 2, best: 2 }, scale: 2.5 },
  { topK: 8, scores: 'softmax', isNormalized: false, groups: { count: 2, kept: 2, best: 1 } },
  { topK: 2, scores: 'softmax', isNormalized: false, nearness: 0.4 },
];

export interface Parts {
  /** Null: there is no gate. */
  readonly gate: LinearPart | null;
  readonly up: LinearPart;
  readonly down: LinearPart;
}

/** Experts of k inputs and outputs, `inner` numbers between, with biases. */
export function makeParts(
  folder: WeightFolder,
  random: Random,
  count: number,
  k: number,
  inner: number,
  hasGate = true,
): Parts[] {
  const part = (rows: number, cols: number) =>
    plainPart(
      folder.write([rows, cols], random.floats(rows * cols)),
      folder.write([rows], random.floats(rows)),
    );
  return Array.from({ length: count }, () => ({
    gate: hasGate ? part(inner, k) : null,
    up: part(inner, k),
    down: part(k, inner),
  }));
}

export function load(ops: Ops, parts: readonly Parts[], format: WeightFormat): Expert[] {
  return parts.map(({ gate, up, down }) => ({
    ...(gate === null ? { up: ops.loadLinear([up], format) } : { gateUp: ops.loadGateUp(gate, up, format) }),
    down: ops.loadLinear([down], format),
  }));
}

export interface Input {
  readonly x: Float32Array;
  readonly logits: Float32Array;
}

export function makeInput(random: Random, rows: number, k: number, count: number): Input {
  return {
    x: random.floats(rows * k, 'bf16'),
    logits: random.floats(rows * count).map((value) => value * 4),
  };
}

/** The mixture over rows of `input`, by their indices. */
export function compute(
  ops: Ops,
  experts: Expert[],
  routing: Routing,
  input: Input,
  rows: readonly number[],
  activation: Activation = 'gateUp' in (experts[0] ?? {}) ? 'silu' : 'relu2',
) {
  const mixture = ops.makeExperts(experts, routing, activation);
  const { total: count, k, inputDType } = mixture;
  const pick = (values: Float32Array, cols: number) =>
    Float32Array.from(rows.flatMap((row) => [...values.subarray(row * cols, (row + 1) * cols)]));
  return ops.scope(() => {
    const x = ops.tensor(pick(input.x, k), rows.length, k, inputDType);
    return ops.read(
      ops.experts(x, ops.tensor(pick(input.logits, count), rows.length, count, 'f32'), mixture),
    );
  });
}

export const upTo = (count: number) => Array.from({ length: count }, (_, index) => index);
