// What op tests share: the native backend on each instruction set of this machine, random numbers, comparisons.

import { describe, expect, it } from 'vitest';
import { CPU_ISAS, type CpuIsa } from '../../src/config/cpu-isa.ts';
import { probeNative } from '../../src/native/native.ts';
import type { CodeFormat, ComputeDType, KvDType, WeightFormat } from '../../src/ops/dtype.ts';
import { roundToBf16 } from '../../src/ops/float-formats.ts';
import { openCpuDevice } from '../../src/ops/native/cpu-device.ts';
import { NativeOps } from '../../src/ops/native/native-ops.ts';
import { needsNative } from '../helpers/needs.ts';

const native = probeNative();

/** SVC_TEST_ISA narrows the tests to one instruction set. */
const only = CPU_ISAS.find((isa) => isa === process.env.SVC_TEST_ISA);
const available = native?.instructionSets() ?? [];
export const isas: readonly CpuIsa[] = only === undefined ? available : [only];

export const dtypes: readonly ComputeDType[] = ['f32', 'bf16'];

export const kvDTypes: readonly KvDType[] = [...dtypes, 'fp8', 'int8'];

/** Codes that plain numbers are quantised to. */
export const codeFormats: readonly CodeFormat[] = [
  { kind: 'int4', groupSize: 32, hasZeros: false },
  { kind: 'int4', groupSize: 128, hasZeros: false },
  { kind: 'fp8', groupSize: null, hasZeros: false },
];

export const formats: readonly WeightFormat[] = [...dtypes, 'int8', ...codeFormats];

export function openCpu(isa: CpuIsa, threads = 2): NativeOps {
  if (native === null) throw new Error('the native addon is not built');
  return new NativeOps(openCpuDevice(native, { threads, isa }));
}

/** Runs `body` once for each instruction set; skipped where the addon is not built. */
export function describeEachIsa(title: string, body: (isa: CpuIsa) => void): void {
  if (isas.length > 0) describe.each(isas)(`${title} on %s`, body);
  // The body would open a backend that is not there.
  else describe(title, () => it('is right on every instruction set', needsNative, () => {}));
}

/** A repeatable stream of numbers. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  /** In [0, 1). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  integer(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1));
  }

  /** Numbers in [-1, 1), already rounded to what `dtype` holds. */
  floats(count: number, dtype: ComputeDType = 'f32'): Float32Array {
    const values = new Float32Array(count);
    for (let i = 0; i < count; i += 1) values[i] = this.next() * 2 - 1;
    if (dtype === 'bf16') roundToBf16(values);
    return values;
  }

  /** 0 to count - 1, shuffled. */
  permutation(count: number): Int32Array {
    const values = Int32Array.from({ length: count }, (_, i) => i);
    for (let i = count - 1; i > 0; i -= 1) {
      const j = this.integer(0, i);
      [values[i], values[j]] = [values[j]!, values[i]!];
    }
    return values;
  }
}

export interface Tolerance {
  readonly absolute: number;
  readonly relative?: number;
}

/** Largest error of a sum of a bias and k products of numbers in [-1, 1), added one after the other in f32. */
export function sumTolerance(k: number): Tolerance {
  return { absolute: (k + 2) * 2 ** -24 * Math.max(2, k / 4) };
}

/** Half a last place of bf16, with room for a rounding that falls the other way. */
export const BF16_ROUNDING = 2 ** -8;

export function expectClose(actual: Float32Array, expected: Float32Array, tolerance: Tolerance): void {
  expect(actual.length).toBe(expected.length);
  const { absolute, relative = 0 } = tolerance;
  for (let i = 0; i < actual.length; i += 1) {
    const allowed = absolute + relative * Math.abs(expected[i]!);
    const error = Math.abs(actual[i]! - expected[i]!);
    if (!(error <= allowed)) {
      expect.fail(`number ${i}: ${actual[i]} is further than ${allowed} from ${expected[i]}`);
    }
  }
}
