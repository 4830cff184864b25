// Limits of the machine that runs the benchmark, measured first: every other figure is held against them.

import { toEngineConfig } from '../src/config/llm-options.ts';
import { chooseIsa, chooseThreads, loadNative } from '../src/native/native.ts';
import type { Ops } from '../src/ops/ops.ts';
import { selectOps } from '../src/ops/select.ts';
import type { Section } from './report.ts';

export interface MachineLimits {
  readonly isa: string;
  readonly threads: number;
  /** Bytes that all threads together read from memory in a second. */
  readonly memoryReadBytesPerSecond: number;
  /** Floating-point operations a second of the widest bf16 multiply-add, all threads. */
  readonly matrixFlops: number;
  /** Operations a second of the widest int8 multiply-add, all threads. */
  readonly int8Ops: number;
  /** Seconds to hand an op to all threads and to hear back from them. */
  readonly forkJoinSeconds: number;
}

const CONFIG = toEngineConfig({});

/** What SVC_CPU_ISA asks for. */
export const CPU_ISA = CONFIG.cpuIsa;

/** Far more than any cache holds. */
const READ_BYTES = 2 ** 30;

/** The native backend, on all cores. */
export function openOps(): Ops {
  return selectOps({ ...CONFIG, device: 'cpu', numThreads: null }).ops;
}

export function measureMachine(): MachineLimits {
  const native = loadNative();
  const isa = chooseIsa(native, CPU_ISA);
  const threads = chooseThreads(native, null);
  const backend = new native.CpuBackend(isa, threads);
  try {
    return {
      isa,
      threads,
      memoryReadBytesPerSecond: backend.readBandwidth(READ_BYTES, 5),
      matrixFlops: backend.matrixPeak(5, false),
      int8Ops: backend.matrixPeak(5, true),
      forkJoinSeconds: backend.forkJoinSeconds(100_000),
    };
  } finally {
    backend.close();
  }
}

/** Bytes of a weight's number; in int4 32 of them share a scale of 4 bytes. */
export const BYTES_PER_WEIGHT = { bf16: 2, int8: 1, fp8: 1, int4: 0.5 + 4 / 32, ternary: 0.25 } as const;

/** `ternary`: published in numbers of 2 bits. */
export type BenchFormat = keyof typeof BYTES_PER_WEIGHT;

/** Whether products are those of whole numbers of 8 bits. */
export function isOfInt8(format: BenchFormat): boolean {
  return format === 'int8' || format === 'ternary';
}

/** What bounds the products of one format. */
export interface SpeedLimits {
  readonly readBytesPerSecond: number;
  readonly operationsPerSecond: number;
}

/**
 * Bytes of weights a second that a product of `rows` rows can pass over: memory bounds it, and with many rows the matrix
 * unit, which needs two operations a weight and row.
 */
export function weightBytesPerSecond(limits: SpeedLimits, rows: number, format: BenchFormat): number {
  const weights = limits.operationsPerSecond / (2 * rows);
  return Math.min(limits.readBytesPerSecond, weights * BYTES_PER_WEIGHT[format]);
}

export function machineSection(limits: MachineLimits): Section {
  const watched = { limit: null, goal: null };
  return {
    title: `This machine: ${limits.isa}, ${limits.threads} threads`,
    figures: [
      { name: 'memory reads', value: limits.memoryReadBytesPerSecond / 1e9, unit: 'GB/s', ...watched },
      { name: 'bf16 multiply-adds', value: limits.matrixFlops / 1e9, unit: 'GFLOP/s', ...watched },
      { name: 'int8 multiply-adds', value: limits.int8Ops / 1e9, unit: 'GOP/s', ...watched },
      { name: 'fork and join', value: limits.forkJoinSeconds * 1e6, unit: 'us', limit: null, goal: '< 1 us' },
    ],
  };
}
