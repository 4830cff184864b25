// What op tests share: the native backend on each instruction set of this machine, random numbers, comparisons.

import { describe, expect, it } from 'vitest';
import { CPU_ISAS, type CpuIsa, multipliesWholeCodes } from '../../src/config/cpu-isa.ts';
import { probeNative } from '../../src/native/native.ts';
import {
  BLOCKS,
  type CodeFormat,
  type ComputeDType,
  type KvDType,
  type WeightFormat,
} from '../../src/ops/dtype.ts';
import { openCpuDevice } from '../../src/ops/native/cpu-device.ts';
import { NativeOps } from '../../src/ops/native/native-ops.ts';
import { needsNative } from '../helpers/needs.ts';

export { Random } from '../helpers/random.ts';

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
  return new NativeOps(openCpuDevice(native, { numThreads: threads, cpuBind: null, cpuIsa: isa }));
}

/** Whether products with a weight of `format` take what its codes encode unrounded. */
export function takesUnrounded(isa: CpuIsa, format: WeightFormat): boolean {
  if (typeof format === 'object' && format.kind === 'fp8') return isa === 'avx512-bf16';
  const isOfCodes = typeof format === 'object' || Object.hasOwn(BLOCKS, format);
  return isOfCodes && multipliesWholeCodes(isa);
}

/** Runs `body` once for each instruction set; skipped where the addon is not built. */
export function describeEachIsa(title: string, body: (isa: CpuIsa) => void): void {
  if (isas.length > 0) describe.each(isas)(`${title} on %s`, body);
  // The body would open a backend that is not there.
  else describe(title, () => it('is right on every instruction set', needsNative, () => {}));
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
