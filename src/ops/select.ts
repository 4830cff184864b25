// Picks the backend: the native one where its addon loads, else plain TypeScript. The one place that knows both.

import type { Device } from '../config/engine-config.ts';
import { NativeAddonError } from '../errors.ts';
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
 */
export function selectOps(options: {
  readonly device: Device;
  readonly numThreads: number | null;
}): SelectedOps {
  if (options.device === 'cpu') {
    throw new NativeAddonError(
      '--device cpu needs the native addon, which is not built; run `npm run build`',
    );
  }
  return { ops: new ReferenceOps(), reason: 'the native addon is not built' };
}
