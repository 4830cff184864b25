// The GPU as the parts of the check open it.

import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { loadNative } from '../../src/native/native.ts';
import type { HalfDType } from '../../src/ops/dtype.ts';
import { openCudaDevice } from '../../src/ops/native/cuda-device.ts';
import { NativeOps } from '../../src/ops/native/native-ops.ts';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');

/** A driver that stands in for NVIDIA's, and the kernels that it runs. */
export const EMULATED = {
  SVC_CUDA_DRIVER: `${ROOT}/native/build/cuda-emulator.so`,
  SVC_CUDA_KERNELS: `${ROOT}/native/build/cuda-kernels-emulated.so`,
};

export function openGpu(half: HalfDType = 'bf16'): NativeOps {
  const options = { half, usesGraphs: true, schedulesDecode: false, schedulesPrefill: false };
  return new NativeOps(openCudaDevice(loadNative(), options));
}

export interface Digests {
  /** Of the numbers that each op gave, by its name. */
  readonly digests: ReadonlyMap<string, string>;
  /** Of ops on the matrix unit. */
  readonly numbers: ReadonlyMap<string, Float32Array>;
  /** Why there are none. */
  readonly problem: string | null;
}

/** What digests.ts prints with these variables of its environment, perhaps under another program. */
export function digestsWith(
  variables: Readonly<Record<string, string>>,
  under: readonly string[] = [],
): Digests {
  const [command, ...args] = [...under, process.execPath, '--import', 'tsx', `${ROOT}/bench/gpu/digests.ts`];
  const { error, status, stdout, stderr } = spawnSync(command!, args, {
    cwd: ROOT,
    encoding: 'utf8',
    env: { ...process.env, ...variables },
    maxBuffer: 2 ** 26,
  });
  const words = (stdout ?? '').split('\n').map((line) => line.split(' '));
  const printed = (kind: string) =>
    words.flatMap(([first, name, text]): [string, string][] =>
      first === kind && text ? [[name!, text]] : [],
    );
  const digests = new Map(printed('digest'));
  const numbers = new Map(printed('numbers').map(([name, text]) => [name, floatsOf(text)]));
  if (error === undefined && status === 0) return { digests, numbers, problem: null };
  return {
    digests,
    numbers,
    problem: error?.message ?? `exited ${status}: ${withoutDigests(`${stdout}${stderr}`)}`,
  };
}

/** @param text in base64; of a program that was stopped it may be cut off */
function floatsOf(text: string): Float32Array {
  const bytes = Uint8Array.from(Buffer.from(text, 'base64'));
  return new Float32Array(bytes.buffer, 0, Math.floor(bytes.length / 4));
}

/** The end of what was written besides: reports have twenty lines each. */
function withoutDigests(text: string): string {
  const lines = text
    .trim()
    .split('\n')
    .filter((line) => !/^(?:digest|numbers) /.test(line));
  return lines.slice(-120).join('\n');
}
