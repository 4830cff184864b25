// A GPU as a device of the addon.

import { ConfigError } from '../../errors.ts';
import { cudaDriver, type Native, type NativeCudaDevice, ncclLibrary } from '../../native/native.ts';
import type { NativeBackend } from '../../native/native-backend.ts';
import type { HalfDType } from '../dtype.ts';
import { ALONE, type RankSeat } from '../ranks.ts';
import { findCudaKernels } from './cuda-kernels.ts';
import type { NativeDevice } from './native-ops.ts';

interface CudaOptions {
  /** The format of halves: there are kernels for each. */
  readonly half: HalfDType;
  /** Whether decode steps that come again are launched as CUDA graphs. */
  readonly usesGraphs: boolean;
  /** Whether the chunks of a decode step are shared evenly among the multiprocessors, as FLASHINFER does. */
  readonly schedulesDecode: boolean;
  /** Likewise in steps with prompts. */
  readonly schedulesPrefill: boolean;
}

/** A GPU among those of all engines, stages and ranks. */
export interface GpuPlace {
  readonly gpu: number;
  readonly count: number;
  /** The options that ask for several, with their values. */
  readonly options: Readonly<Record<string, number>>;
}

const ONLY_GPU: GpuPlace = { gpu: 0, count: 1, options: {} };

/** For the graphs that are kept, of 16384 launches together at most: 16 KiB each. */
const GRAPH_BYTES = 256 * 2 ** 20;
/** For arrays of steps in flight. */
const PARCEL_BYTES = 4 * 2 ** 20;

/**
 * @param seat of a rank among those of its stage
 * @throws ConfigError saying what this machine lacks, and what to do.
 */
export function openCudaDevice(
  native: Native,
  options: CudaOptions,
  place = ONLY_GPU,
  seat?: RankSeat,
): NativeDevice {
  if (place.count > 1) expectGpus(native, place);
  const { gpu } = place;
  const device = deviceOf(native, gpu);
  const { backend, madeBy } = openBackend(native, device, options, gpu, seat);
  const isa = `sm_${device.computeCapability}`;
  return {
    native: backend,
    ranks: seat ?? ALONE,
    backend: 'cuda',
    description: `${device.name}, ${isa}`,
    isa: ['cuda', isa, madeBy].filter((word) => word !== '').join(' '),
    packs: false,
    recordsSteps: options.usesGraphs,
    freeMemory: () => deviceOf(native, gpu).freeBytes,
    deviceMemory: () => {
      const { freeBytes, totalBytes } = deviceOf(native, gpu);
      const takenBytes = Math.max(0, device.freeBytes - freeBytes);
      return { totalBytes, takenBytes, reservedBytes: PARCEL_BYTES + (options.usesGraphs ? GRAPH_BYTES : 0) };
    },
  };
}

/** What this machine lacks to compute on a GPU, '' where it has no driver for one; null where it lacks nothing. */
export function missingForCuda(native: Native): string | null {
  const device = native.cudaDevice(cudaDriver(), 0);
  if (device.missing === undefined) return null;
  return device.hasDriver ? device.missing : '';
}

function deviceOf(native: Native, gpu: number): NativeCudaDevice {
  const device = native.cudaDevice(cudaDriver(), gpu);
  if (device.missing !== undefined) throw notPossible(device.missing);
  return device;
}

/** As many as are asked for, of one kind: others round sums in another way. */
function expectGpus(native: Native, { gpu, count, options }: GpuPlace): void {
  const first = deviceOf(native, 0);
  if (first.count < count) {
    throw notThese(
      options,
      `${count} GPUs, and the NVIDIA driver shows ${first.count}: let it show more (nvidia-smi lists all, CUDA_VISIBLE_DEVICES ` +
        'chooses), ask for fewer, or use --device cpu',
    );
  }
  const own = deviceOf(native, gpu);
  if (own.computeCapability === first.computeCapability) return;
  throw notThese(
    options,
    `GPUs of one kind, and GPU 0 is ${first.name} (sm_${first.computeCapability}), GPU ${gpu} is ${own.name} ` +
      `(sm_${own.computeCapability}): choose others with CUDA_VISIBLE_DEVICES`,
  );
}

/** @param what they need, and what to do */
function notThese(options: GpuPlace['options'], what: string): ConfigError {
  const names = Object.keys(options);
  const given = names.map((name) => `--${name} ${options[name]}`).join(' and ');
  return new ConfigError(`${given} ${names.length === 1 ? 'needs' : 'need'} ${what}`, { param: names[0] });
}

function openBackend(
  native: Native,
  device: NativeCudaDevice,
  { half, usesGraphs, schedulesDecode, schedulesPrefill }: CudaOptions,
  gpu: number,
  seat: RankSeat | undefined,
): { backend: NativeBackend; madeBy: string } {
  try {
    const { path, madeBy } = findCudaKernels(native, device, half);
    const backend = new native.CudaBackend(
      cudaDriver(),
      path,
      gpu,
      usesGraphs,
      schedulesDecode,
      schedulesPrefill,
      seat && { group: seat.group, rank: seat.rank, nccl: ncclLibrary() },
    );
    const compiledFor = backend.half();
    if (compiledFor !== half) {
      backend.close();
      throw new Error(
        `the kernels of ${path} are for ${compiledFor}, and the model is to be computed in ${half}`,
      );
    }
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
