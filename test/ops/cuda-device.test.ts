// Whether this machine can compute on a GPU, and what a person is told where it cannot.

import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { ConfigError } from '../../src/errors.ts';
import { selectOps } from '../../src/ops/select.ts';
import { CUDA_EMULATOR, needsCudaEmulator } from '../helpers/cuda-emulator.ts';
import { ENGINE_DEFAULTS } from '../helpers/engine-defaults.ts';
import { needs, needsNative } from '../helpers/needs.ts';

const select = (device: 'auto' | 'cuda') => selectOps({ ...ENGINE_DEFAULTS, device, numThreads: 1 });

function expectRefusal(message: RegExp): void {
  const open = () => select('cuda').ops.close();
  expect(open).toThrow(ConfigError);
  expect(open).toThrow(/^--device cuda is not possible here: .*; or use --device cpu$/);
  expect(open).toThrow(message);
}

afterEach(() => vi.unstubAllEnvs());

describe('--device cuda', needsNative, () => {
  it('says that there is no driver, and how to get one', () => {
    vi.stubEnv('SVC_CUDA_DRIVER', '/nowhere/libcuda.so.1');
    expectRefusal(
      /driver is not there \(\/nowhere\/libcuda.so.1: cannot open.*install driver 580.*--gpus all/,
    );
  });

  it('says which function a driver lacks that is too old', () => {
    vi.stubEnv('SVC_CUDA_DRIVER', 'libm.so.6');
    expectRefusal(/driver is too old \(it has no cuInit\): install driver 580 or newer/);
  });

  it('leaves auto on the processor where no driver is, without a word of it', () => {
    vi.stubEnv('SVC_CUDA_DRIVER', '/nowhere/libcuda.so.1');
    const { ops, reason } = select('auto');
    expect([ops.backend, reason]).toEqual(['cpu', 'the native addon is built']);
    ops.close();
  });
});

describe('--device cuda with a driver', needsCudaEmulator, () => {
  it.each<[string, string, string, RegExp]>([
    ['no GPU', 'SVC_EMULATED_GPUS', '0', /driver but no GPU \(CUDA_ERROR_NO_DEVICE/],
    ['an old driver', 'SVC_EMULATED_CUDA', '11080', /too old \(for CUDA 11\.8\): .* for CUDA 13\.0/],
    ['an old GPU', 'SVC_EMULATED_CAPABILITY', '75', /emulated GPU is too old: .*compute capability 8\.0/],
    [
      'no kernels',
      'SVC_CUDA_KERNELS',
      '/nowhere/k.fatbin',
      /not built \(no \/nowhere\/k\.fatbin\).*nvcc.*npm run build/,
    ],
    [
      'other kernels',
      'SVC_CUDA_KERNELS',
      CUDA_EMULATOR.SVC_CUDA_DRIVER,
      /lack svcEmbedding, .*svcSample\): run/,
    ],
  ])('and %s says so', (_, variable, value, message) => {
    vi.stubEnv(variable, value);
    expectRefusal(message);
  });

  it('computes on the GPU, and says so', () => {
    const { ops, reason } = select('cuda');
    expect([ops.backend, ops.isa, ops.description, reason]).toEqual([
      'cuda',
      'cuda sm_90',
      'emulated GPU, sm_90',
      'asked for by --device cuda',
    ]);
    ops.close();
  });

  it('is named where auto computes on the processor all the same', () => {
    const { ops, reason } = select('auto');
    expect([ops.backend, reason]).toEqual([
      'cpu',
      'the native addon is built; --device cuda computes on the emulated GPU of this machine',
    ]);
    ops.close();
  });
});

const toolkit = '/usr/local/cuda/include';

describe('what is declared of the driver', () => {
  it(
    'has the sizes and values of the header of the CUDA toolkit',
    needs(existsSync(`${toolkit}/cuda.h`), 'the CUDA toolkit is not installed'),
    () => {
      const native = fileURLToPath(new URL('../../native', import.meta.url));
      const args = ['-std=c++20', '-fsyntax-only', `-I${native}/src`, '-isystem', toolkit];
      const compiled = spawnSync('g++', [...args, `${native}/test/cuda-declarations.cc`], {
        encoding: 'utf8',
      });
      expect(compiled).toMatchObject({ status: 0, stderr: '' });
    },
  );
});
