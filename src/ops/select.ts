// Picks the backend: the native one where its addon loads, else plain TypeScript. The one place that knows both.

import os from 'node:os';
import type { Device } from '../config/engine-config.ts';
import { NativeAddonError } from '../errors.ts';
import { loadNative } from '../native/native.ts';
import { NativeOps } from './native/native-ops.ts';
import type { Ops } from './ops.ts';
import { ReferenceOps } from './reference/reference-ops.ts';

export interface SelectedOps {
  readonly ops: Ops;
  /** Why this backend, for the start-up report. */
  readonly reason: string;
  /** What a person should know of the choice; null where there is nothing. */
  readonly warning: string | null;
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
      return { ops: new ReferenceOps(), reason: 'asked for by --device reference', warning: null };
    case 'cpu':
      return openNative(options.numThreads, 'asked for by --device cpu');
    case 'auto':
      return selectAutomatically(options.numThreads);
  }
}

function selectAutomatically(numThreads: number | null): SelectedOps {
  try {
    return openNative(numThreads, 'the native addon is built');
  } catch (error) {
    // What the user asked for and this machine cannot do is no reason to serve something else.
    if (!(error instanceof NativeAddonError)) throw error;
    return { ops: new ReferenceOps(), reason: `slow: ${error.message}`, warning: null };
  }
}

function openNative(numThreads: number | null, reason: string): SelectedOps {
  const ops = new NativeOps(loadNative(), { threads: numThreads });
  return { ops, reason, warning: tooManyThreads(numThreads) };
}

/** Threads that share a processor wait for each other at the end of every op. */
function tooManyThreads(numThreads: number | null): string | null {
  const processors = os.availableParallelism();
  if (numThreads === null || numThreads <= processors) return null;
  return (
    `--num-threads ${numThreads} is more than the ${processors} processors that svc may use here, which makes it slow: ` +
    'leave it out for one thread a physical core'
  );
}
