// The probes that measure the limits of this machine for the benchmark.

import { describe, expect, it } from 'vitest';
import { loadNative } from '../../src/native/native.ts';
import { openCudaDevice } from '../../src/ops/native/cuda-device.ts';
import { needsCudaEmulator } from '../helpers/cuda-emulator.ts';
import { describeEachIsa } from './native-backends.ts';

describeEachIsa('The probes of the machine', (isa) => {
  it('measure the speed of matrix units, of memory and of handing out work', () => {
    const { CpuBackend } = loadNative();
    const backend = new CpuBackend(isa, 2);
    try {
      expect(backend.matrixPeak(1, false)).toBeGreaterThan(1e8);
      expect(backend.matrixPeak(1, true)).toBeGreaterThan(1e8);
      expect(backend.readBandwidth(2 ** 24, 1)).toBeGreaterThan(1e8);
      expect(backend.forkJoinSeconds(1000)).toBeGreaterThan(0);
    } finally {
      backend.close();
    }
  });
});

describe('The probes of a GPU', needsCudaEmulator, () => {
  it('measure the speed of its matrix units, of its memory and of launches', () => {
    const { native: backend } = openCudaDevice(loadNative(), {
      half: 'bf16',
      usesGraphs: true,
      schedulesDecode: false,
      schedulesPrefill: false,
    });
    try {
      expect(backend.matrixPeak(1, false)).toBeGreaterThan(1e5);
      expect(() => backend.matrixPeak(1, true)).toThrow(/int8 products is not measured with --device cuda/);
      expect(backend.readBandwidth(2 ** 22, 2)).toBeGreaterThan(1e6);
      expect(backend.forkJoinSeconds(50)).toBeGreaterThan(0);
    } finally {
      backend.close();
    }
  });
});
