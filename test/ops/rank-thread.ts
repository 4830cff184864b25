// The thread of a rank in a test: it opens a backend, runs programs on it, and closes it.

import { loadNative } from '../../src/native/native.ts';
import { openCpuDevice } from '../../src/ops/native/cpu-device.ts';
import { openCudaDevice } from '../../src/ops/native/cuda-device.ts';
import { NativeOps } from '../../src/ops/native/native-ops.ts';
import type { RankPlace, RankSeat } from '../../src/ops/ranks.ts';
import { serveCalls } from '../../src/util/call-thread.ts';
import { PROGRAMS, type ProgramName } from './rank-programs.ts';

export type RankOrder =
  | {
      readonly type: 'open';
      readonly device: 'cpu' | 'cuda';
      /** Of a processor. */
      readonly threads: number;
      readonly seat: RankSeat;
    }
  | { readonly type: 'run'; readonly program: ProgramName; readonly input: unknown }
  | { readonly type: 'close' };

let ops: NativeOps | null = null;

serveCalls((order: RankOrder): { value: unknown } => {
  if (order.type === 'open') ops = open(order);
  if (order.type === 'run') return { value: run(order) };
  if (order.type === 'close') {
    ops?.close();
    ops = null;
  }
  return { value: null };
});

function run({ program, input }: Extract<RankOrder, { type: 'run' }>): unknown {
  if (ops === null) throw new Error('the rank has no backend');
  // `RankCrew` has sent the input that the program takes.
  const call: (ops: NativeOps, place: RankPlace, input: never) => unknown = PROGRAMS[program];
  return call(ops, ops.ranks, input as never);
}

function open({ device, seat, threads }: Extract<RankOrder, { type: 'open' }>): NativeOps {
  const addon = loadNative();
  if (device === 'cpu') {
    return new NativeOps(
      openCpuDevice(addon, { numThreads: threads * seat.size, cpuBind: null, cpuIsa: null }, seat),
    );
  }
  const options = {
    half: 'bf16',
    usesGraphs: false,
    schedulesDecode: false,
    schedulesPrefill: false,
  } as const;
  const place = { gpu: seat.rank, count: seat.size, options: { 'tensor-parallel-size': seat.size } };
  return new NativeOps(openCudaDevice(addon, options, place, seat));
}
