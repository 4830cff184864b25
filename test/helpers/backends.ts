// The backends that this machine can run: a test body runs once on each.

import { type CpuIsa, multipliesWholeCodes } from '../../src/config/cpu-isa.ts';
import { NativeAddonError } from '../../src/errors.ts';
import { probeNative } from '../../src/native/native.ts';
import type { Ops } from '../../src/ops/ops.ts';
import { selectOps } from '../../src/ops/select.ts';
import { ENGINE_DEFAULTS } from './engine-defaults.ts';

export type Backend = 'reference' | 'cpu';

export const availableBackends: readonly Backend[] = hasNative() ? ['reference', 'cpu'] : ['reference'];

export function openBackend(backend: Backend, cpuIsa: CpuIsa | null = null): Ops {
  return selectOps({ ...ENGINE_DEFAULTS, device: backend, numThreads: 2, cpuIsa }).ops;
}

/** On the best instruction set that rounds what codes encode to bf16, as the definition does. */
export function openRoundingBackend(backend: Backend): Ops {
  const isas = probeNative()?.instructionSets() ?? [];
  return openBackend(backend, isas.find((isa) => !multipliesWholeCodes(isa)) ?? null);
}

function hasNative(): boolean {
  try {
    openBackend('cpu').close();
    return true;
  } catch (error) {
    if (error instanceof NativeAddonError) return false;
    throw error;
  }
}
