// The backends that this machine can run: a test body runs once on each.

import { NativeAddonError } from '../../src/errors.ts';
import type { Ops } from '../../src/ops/ops.ts';
import { selectOps } from '../../src/ops/select.ts';
import { ENGINE_DEFAULTS } from './engine-defaults.ts';

export type Backend = 'reference' | 'cpu';

export const availableBackends: readonly Backend[] = hasNative() ? ['reference', 'cpu'] : ['reference'];

export function openBackend(backend: Backend): Ops {
  return selectOps({ ...ENGINE_DEFAULTS, device: backend, numThreads: 2 }).ops;
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
