// The stand-ins for NVIDIA's driver and for NCCL, and the kernels compiled for the processor, as files.

import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { probeNative } from '../../src/native/native.ts';

const native = fileURLToPath(new URL('../../native', import.meta.url));

/** Variables with which a process takes them for the real ones. */
export const CUDA_EMULATOR = {
  SVC_CUDA_DRIVER: `${native}/build/cuda-emulator.so`,
  SVC_CUDA_KERNELS: `${native}/build/cuda-kernels-emulated.so`,
};

/** The same with a stand-in for NCCL. */
export const NCCL_EMULATOR = { ...CUDA_EMULATOR, SVC_NCCL: `${native}/build/nccl-emulator.so` };

/**
 * Builds what is not built.
 * @returns why they cannot be built here; null where they are there.
 * @throws where they do not compile.
 */
export function buildEmulators(): string | null {
  if (probeNative() === null) return 'the native addon is not built';
  mkdirSync(`${native}/build`, { recursive: true });
  const targets = [
    'cuda-emulator',
    'cuda-kernels-emulated',
    'cuda-kernels-emulated-f16',
    'nccl-emulator',
  ].map((name) => `build/${name}.so`);
  // Another test file may be building it at the same time.
  const lock = `${native}/build/cuda-emulator.lock`;
  const make = ['make', '--silent', '-j2', '-C', native, 'WERROR=-Werror', ...targets];
  const built = spawnSync('flock', [lock, ...make], { encoding: 'utf8' });
  if (built.error !== undefined) return built.error.message;
  if (built.status !== 0) throw new Error(built.stderr);
  return null;
}
