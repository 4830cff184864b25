// The CUDA backend where no GPU is: over a stand-in for NVIDIA's driver, with the kernels compiled for the processor.

import { describe, it, vi } from 'vitest';
import { probeNative } from '../../src/native/native.ts';
import type { HalfDType } from '../../src/ops/dtype.ts';
import { openCudaDevice } from '../../src/ops/native/cuda-device.ts';
import { NativeOps } from '../../src/ops/native/native-ops.ts';
import type { RankSeat } from '../../src/ops/ranks.ts';
import { buildEmulators, NCCL_EMULATOR } from './emulator-files.ts';
import { needs } from './needs.ts';

/** With SVC_TEST_GPUS the tests of GPUs run on those of this machine, as many as it says: scripts/gpu-check does that. */
const realGpus = Number(process.env.SVC_TEST_GPUS ?? 0);
const isReal = realGpus > 0;

// All files after this one would compute on the emulated GPU.
if (process.env.TEST_PROCESS_IS_SHARED !== undefined) {
  throw new Error('a file that emulates a GPU needs a process of its own: name it in vitest.config.ts');
}

/** Null where the emulator is built; else why it is not. */
const obstacle = isReal ? null : buildEmulators();

/** Where it is met, this process computes on the emulator wherever it asks for a GPU. */
export const needsCudaEmulator = needs(obstacle === null, `no emulator of a GPU: ${obstacle}`);
if (obstacle === null && !isReal) Object.assign(process.env, NCCL_EMULATOR);

/** Up to four GPUs; of emulated ones `emulateGpus` says how many. */
export const needsSeveralGpus = needs(
  isReal ? realGpus >= 4 : obstacle === null,
  isReal ? 'SVC_TEST_GPUS says that there are fewer than four' : `no emulator of GPUs: ${obstacle}`,
);

/** Emulated ones, which do what a test tells them by a variable. */
export const needsCudaEmulators = needs(
  obstacle === null && !isReal,
  `no emulator of GPUs: ${obstacle ?? 'SVC_TEST_GPUS asks for real ones'}`,
);

/** Sets how many GPUs are emulated, until variables are as they were. */
export function emulateGpus(count: number): void {
  if (!isReal) vi.stubEnv('SVC_EMULATED_GPUS', String(count));
}

/** A suite that opens a GPU while it is collected: `body` does not run where there is none. */
export function describeCuda(name: string, body: () => void): void {
  if (obstacle === null) describe(name, body);
  else it(name, needsCudaEmulator, () => {});
}

export function openCuda(isScheduled = false, seat?: RankSeat, half: HalfDType = 'bf16'): NativeOps {
  const addon = probeNative();
  if (addon === null) throw new Error('the native addon is not built');
  const options = {
    half,
    usesGraphs: seat === undefined,
    schedulesDecode: isScheduled,
    schedulesPrefill: isScheduled,
  };
  const place = seat && { gpu: seat.rank, count: seat.size, options: { 'tensor-parallel-size': seat.size } };
  return new NativeOps(openCudaDevice(addon, options, place, seat));
}
