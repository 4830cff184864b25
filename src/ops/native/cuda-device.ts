// A GPU as a device of the addon.

import { ConfigError } from '../../errors.ts';
import { cudaDriver, type Native, type NativeBackend, type NativeCudaDevice } from '../../native/native.ts';
import { ALONE } from '../ranks.ts';
import { findCudaKernels } from './cuda-kernels.ts';
import type { NativeDevice } from './native-ops.ts';

interface CudaOptions {
  /** Whether decode steps that come again are launched as CUDA graphs. */
  readonly usesGraphs: boolean;
  /** Whether the chunks of a decode step are shared evenly among the multiprocessors, as FLASHINFER does. */
  readonly schedulesDecode: boolean;
  /** Likewise in steps with prompts. */
  readonly schedulesPrefill: boolean;
}

/** For the graphs that are kept, of 16384 launches together at most: 16 KiB each. */
const GRAPH_BYTES = 256 * 2 ** 20;
/** For arrays of steps in flight. */
const PARCEL_BYTES = 4 * 2 ** 20;

/**
 * @throws ConfigError saying what this machine lacks, and what to do.
 */
export function openCudaDevice(native: Native, options: CudaOptions): NativeDevice {
  const device = deviceOf(native);
  const { backend, madeBy } = openBackend(native, device, options);
  const isa = `sm_${device.computeCapability}`;
  return {
    native: backend,
    ranks: ALONE,
    backend: 'cuda',
    description: `${device.name}, ${isa}`,
    isa: ['cuda', isa, madeBy].filter((word) => word !== '').join(' '),
    packs: false,
    recordsSteps: options.usesGraphs,
    freeMemory: () => deviceOf(native).freeBytes,
    deviceMemory: () => {
      const { freeBytes, totalBytes } = deviceOf(native);
      const takenBytes = Math.max(0, device.freeBytes - freeBytes);
      return { totalBytes, takenBytes, reservedBytes: PARCEL_BYTES + (options.usesGraphs ? GRAPH_BYTES : 0) };
    },
  };
}

/** What this machine lacks to compute on a GPU, '' where it has no driver for one; null where it lacks nothing. */
export function missingForCuda(native: Native): string | null {
  const device = native.cudaDevice(cudaDriver());
  if (device.missing === undefined) return null;
  return device.hasDriver ? device.missing : '';
}

function deviceOf(native: Native): NativeCudaDevice {
  const device = native.cudaDevice(cudaDriver());
  if (device.missing !== undefined) throw notPossible(device.missing);
  return device;
}

function openBackend(
  native: Native,
  device: NativeCudaDevice,
  { usesGraphs, schedulesDecode, schedulesPrefill }: CudaOptions,
): { backend: NativeBackend; madeBy: string } {
  try {
    const { path, madeBy } = findCudaKernels(native, device);
    const backend = new native.CudaBackend(cudaDriver(), path, usesGraphs, schedulesDecode, schedulesPrefill);
    // Two machines have the same bits only if the same program made their machine code.
    return { backend, madeBy: backend.isCompiledByDriver() ? `driver ${device.driverVersion}` : madeBy };
  } catch (error) {
    throw notPossible(error instanceof Error ? error.message : String(error), error);
  }
}

function notPossible(reason: string, cause?: unknown): ConfigError {
  return new ConfigError(`--device cuda is not possible here: ${reason}; or use --device cpu`, {
    param: 'device',
    cause,
  });
}
