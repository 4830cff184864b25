// Picks the backend: the native one where its addon loads, else plain TypeScript. The one place that knows both.

import type { Device } from '../config/engine-config.ts';
import { NativeAddonError } from '../errors.ts';
import { loadNative } from '../native/native.ts';
import { CpuOps } from './cpu/cpu-ops.ts';
import type { Ops } from './ops.ts';
import { ReferenceOps } from './reference/reference-ops.ts';

export interface SelectedOps {
  readonly ops: Ops;
  /** Why this backend, for the start-up report. */
  readonly reason: string;
}

/**
 * @param options `numThreads` null is one a physical core.
 * @throws NativeAddonError when `device` is cpu and the addon does not load; ConfigError for an instruction set or
 *   a number of threads that this machine cannot do.
 */
export function selectOps(options: {
  readonly device: Device;
  readonly numThreads: number | null;
}): SelectedOps {
  switch (options.device) {
    case 'reference':
      return { ops: new ReferenceOps(), reason: 'asked for by --device reference' };
    case 'cpu':
      return { ops: openNative(options.numThreads), reason: 'asked for by --device cpu' };
    case 'auto':
      return selectAutomatically(options.numThreads);
  }
}

function selectAutomatically(numThreads: number | null): SelectedOps {
  try {
    return { ops: openNative(numThreads), reason: 'the native addon is built' };
  } catch (error) {
    // What the user asked for and this machine cannot do is no reason to serve something else.
    if (!(error instanceof NativeAddonError)) throw error;
    return { ops: new ReferenceOps(), reason: `slow: ${error.message}` };
  }
}

function openNative(numThreads: number | null): Ops {
  return new CpuOps(loadNative(), { threads: numThreads });
}
