// A GPU as a device of the addon.

import { ConfigError } from '../../errors.ts';
import { cudaFiles, type Native } from '../../native/native.ts';
import type { NativeDevice } from './native-ops.ts';

/**
 * @param usesGraphs whether decode steps that come again are launched as CUDA graphs
 * @throws ConfigError saying what this machine lacks, and what to do.
 */
export function openCudaDevice(native: Native, usesGraphs: boolean): NativeDevice {
  const device = native.cudaDevice(cudaFiles().driver);
  if (device.missing !== undefined) throw notPossible(device.missing);
  const isa = `sm_${device.computeCapability}`;
  return {
    native: openBackend(native, usesGraphs),
    backend: 'cuda',
    description: `${device.name}, ${isa}`,
    isa: `cuda ${isa}`,
    packs: false,
    recordsSteps: usesGraphs,
    freeMemory: () => freeBytes(native),
  };
}

/** The name of the GPU that `--device cuda` would compute on; null where there is none. */
export function cudaDeviceName(native: Native): string | null {
  const device = native.cudaDevice(cudaFiles().driver);
  return device.missing === undefined ? device.name : null;
}

function openBackend(native: Native, usesGraphs: boolean) {
  const { driver, kernels } = cudaFiles();
  try {
    return new native.CudaBackend(driver, kernels, usesGraphs);
  } catch (error) {
    throw notPossible(error instanceof Error ? error.message : String(error), error);
  }
}

function freeBytes(native: Native): number {
  const device = native.cudaDevice(cudaFiles().driver);
  if (device.missing !== undefined) throw notPossible(device.missing);
  return device.freeBytes;
}

function notPossible(reason: string, cause?: unknown): ConfigError {
  return new ConfigError(`--device cuda is not possible here: ${reason}; or use --device cpu`, {
    param: 'device',
    cause,
  });
}
