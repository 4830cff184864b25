// Picks the backend: the native one where its addon loads, else plain TypeScript. The one place that knows both.

import type { Device } from '../config/engine-config.ts';
import { NativeAddonError } from '../errors.ts';
import { loadNative, type Native } from '../native/native.ts';
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
 * @throws NativeAddonError when `device` is cpu and the addon does not load.
 * @throws ConfigError when SVC_CPU_ISA names an instruction set that this processor lacks.
 */
export function selectOps(options: {
  readonly device: Device;
  readonly numThreads: number | null;
}): SelectedOps {
  if (options.device === 'reference') return { ops: new ReferenceOps(), reason: 'asked for by --device' };
  const native = options.device === 'cpu' ? loadNative() : loadOrReason();
  if (typeof native === 'string') return { ops: new ReferenceOps(), reason: native };
  const reason = options.device === 'cpu' ? 'asked for by --device' : 'the native addon is built';
  return { ops: new CpuOps(native, { threads: options.numThreads }), reason };
}

/** The addon, or why there is none. */
function loadOrReason(): Native | string {
  try {
    return loadNative();
  } catch (error) {
    if (error instanceof NativeAddonError) return error.message;
    throw error;
  }
}
