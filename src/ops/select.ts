// Picks the backend: the native one where its addon loads, else plain TypeScript. The one place that knows both.

import os from 'node:os';
import type { EngineConfig } from '../config/engine-config.ts';
import { NativeAddonError } from '../errors.ts';
import { loadNative, type Native } from '../native/native.ts';
import { openCpuDevice } from './native/cpu-device.ts';
import { cudaDeviceName, openCudaDevice } from './native/cuda-device.ts';
import { NativeOps } from './native/native-ops.ts';
import type { Ops } from './ops.ts';
import { ReferenceOps } from './reference/reference-ops.ts';

interface SelectedOps {
  readonly ops: Ops;
  /** Why this backend, for the start-up report. */
  readonly reason: string;
  /** What a person should know of the choice; null where there is nothing. */
  readonly warning: string | null;
}

/** The part of the configuration that is about hardware. */
type DeviceOptions = Pick<EngineConfig, 'device' | 'numThreads' | 'cpuIsa' | 'enforceEager' | 'attention'>;

/**
 * @throws NativeAddonError when `device` is cpu or cuda and the addon does not load; ConfigError for a GPU that is not there, an
 *   instruction set or a number of threads that this machine cannot do.
 */
export function selectOps(options: DeviceOptions): SelectedOps {
  switch (options.device) {
    case 'reference':
      return { ops: new ReferenceOps(), reason: 'asked for by --device reference', warning: null };
    case 'cpu':
      return openCpu(loadNative(), options, 'asked for by --device cpu');
    case 'cuda':
      return openCuda(options, 'asked for by --device cuda');
    case 'auto':
      return selectAutomatically(options);
  }
}

function selectAutomatically(options: DeviceOptions): SelectedOps {
  try {
    const native = loadNative();
    return openCpu(native, options, `the native addon is built${aboutGpu(native)}`);
  } catch (error) {
    // Where the user asks for what this machine cannot do, nothing else is served in its place.
    if (!(error instanceof NativeAddonError)) throw error;
    return { ops: new ReferenceOps(), reason: `slow: ${error.message}`, warning: null };
  }
}

/** Whoever has a GPU should know that it is not used. */
function aboutGpu(native: Native): string {
  const name = cudaDeviceName(native);
  return name === null ? '' : `; --device cuda computes on the ${name} of this machine`;
}

function openCuda({ enforceEager, attention }: DeviceOptions, reason: string): SelectedOps {
  const isScheduled = attention.backend === 'FLASHINFER';
  const device = openCudaDevice(loadNative(), {
    usesGraphs: !enforceEager,
    schedulesDecode: isScheduled,
    schedulesPrefill: isScheduled && attention.isForPrefill,
  });
  return { ops: new NativeOps(device), reason, warning: null };
}

function openCpu(native: Native, { numThreads, cpuIsa }: DeviceOptions, reason: string): SelectedOps {
  const ops = new NativeOps(openCpuDevice(native, { threads: numThreads, isa: cpuIsa }));
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
