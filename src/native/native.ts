// Loads the addon, and types what it exports.

import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { CpuIsa } from '../config/cpu-isa.ts';
import { ConfigError, messageOf, NativeAddonError } from '../errors.ts';
import type { NativeBackend } from './native-backend.ts';
import type {
  NativeKvMemory,
  NativeKvPart,
  NativeLayerBlockShape,
  NativeTransferEngine,
  NativeTransferEvent,
  NativeTransferOptions,
} from './native-transfer.ts';

/** The GPU that CudaBackend computes on, as it is now. */
export interface NativeCudaDevice {
  readonly missing?: undefined;
  /** GPUs that the driver shows. */
  readonly count: number;
  readonly name: string;
  /** Major * 10 + minor: 90 is Hopper. */
  readonly computeCapability: number;
  /** The newest CUDA that the driver takes the code of: 13020 is 13.2. */
  readonly driverVersion: number;
  readonly freeBytes: number;
  readonly totalBytes: number;
}

interface NativeCudaMissing {
  /** Why there is no GPU to compute on, and what to do. */
  readonly missing: string;
}

export interface Native {
  /** `driver`: in memory of the GPU of that driver library. */
  readonly KvMemory: new (
    layers: number,
    blocks: number,
    /** A number of bytes is that of one head and one token. */
    layerBlock: number | NativeLayerBlockShape,
    driver?: string,
    kernels?: string,
    /** Of those that the driver shows; left out, the first. */
    gpu?: number,
  ) => NativeKvMemory;
  readonly TransferEngine: new (
    parts: readonly NativeKvPart[],
    options: NativeTransferOptions,
    onEvents: (events: readonly NativeTransferEvent[]) => void,
  ) => NativeTransferEngine;
  /** CRC-32C of bytes. */
  crc32c(bytes: Uint8Array): number;
  /** Bytes a second that one thread copies from memory to memory. */
  copyBandwidth(bytes: number): number;
  /**
   * Bytes a second over plain TCP sockets on the loopback, out of and into `memoryBytes` of memory a socket; it holds
   * the calling thread that long.
   */
  socketBandwidth(bytes: number, memoryBytes: number, sockets: number): number;
  /**
   * Thread i is bound to processor `cpus[i % length]`; left out, to none. Among ranks it has a group, and is the only one of its rank
   * there.
   */
  readonly CpuBackend: new (
    isa: CpuIsa,
    threads: number,
    cpus?: Int32Array,
    group?: bigint,
    rank?: number,
  ) => NativeBackend;
  /** A group of 2, 4 or 8 ranks: the token is good on all threads of the process, until `breakRankGroup`. */
  createRankGroup(size: number, deadlineMs: number): bigint;
  /** Ops of its ranks that wait for others, and those that come, throw an error with `isRanksBroken` that says why. */
  breakRankGroup(group: bigint, why: string): void;
  /**
   * On one of the GPUs that the driver shows; the files are a library and compiled kernels. Throws where there is none to compute on, and where ranks have
   * no NCCL.
   */
  readonly CudaBackend: new (
    driver: string,
    kernels: string,
    gpu: number,
    usesGraphs: boolean,
    schedulesDecode: boolean,
    schedulesPrefill: boolean,
    /** `nccl` is a file. Left out, the backend is alone. */
    ranks?: { readonly group: bigint; readonly rank: number; readonly nccl: string },
  ) => NativeBackend;
  cudaDevice(
    driver: string,
    gpu: number,
  ): NativeCudaDevice | (NativeCudaMissing & { readonly hasDriver: boolean });
  /** The compiler of kernels in a library: `version` is that of its toolkit, `13.0`. */
  nvrtc(library: string): { readonly missing?: undefined; readonly version: string } | NativeCudaMissing;
  /** Machine code of `source`, which includes `headers`, each [name, text]. Throws what the compiler says. */
  compileCuda(
    library: string,
    source: string,
    headers: readonly (readonly [string, string])[],
    options: readonly string[],
  ): Buffer;
  /** What this processor can run, the best first. */
  instructionSets(): CpuIsa[];
  /** Physical cores that this process may use. */
  physicalCores(): number;
}

const BUILT_ADDON = fileURLToPath(new URL('../../native/build/svc.node', import.meta.url));

/**
 * Loads the addon that `npm run build` made, or the one that SVC_NATIVE_ADDON names.
 * @throws NativeAddonError saying what to do when it is not there or does not load, ConfigError when that is the one that was named.
 */
export function loadNative(): Native {
  const path = addonPath();
  if (!existsSync(path)) {
    throw unusable(
      'where there is no file',
      `the native addon is not built (no ${path}); install make and g++ and run \`npm run build\``,
    );
  }
  const addon = requireAddon(path);
  if (isNative(addon)) return addon;
  throw unusable('which is of another version', `${path} is of another version; run \`npm run build\``);
}

/** The file that `loadNative` loads. */
export function addonPath(): string {
  return namedAddon() ?? BUILT_ADDON;
}

function namedAddon(): string | null {
  const { SVC_NATIVE_ADDON: named } = process.env;
  return named ? resolve(named) : null;
}

/** Plain TypeScript may take the place of what is not built, never that of a file that somebody names. */
function unusable(fault: string, unlessNamed: string, cause?: unknown): NativeAddonError | ConfigError {
  const named = namedAddon();
  if (named === null) return new NativeAddonError(unlessNamed, { cause });
  return new ConfigError(
    `SVC_NATIVE_ADDON names ${named}, ${fault}: give the file of a build of the native addon, or unset the variable`,
    { param: 'SVC_NATIVE_ADDON', cause },
  );
}

/** NVIDIA's library, or the one that SVC_CUDA_DRIVER names. */
export function cudaDriver(): string {
  return process.env.SVC_CUDA_DRIVER ?? 'libcuda.so.1';
}

/** NVIDIA's library, or the one that SVC_NCCL names. */
export function ncclLibrary(): string {
  return process.env.SVC_NCCL ?? 'libnccl.so.2';
}

/** The kernels that `npm run build` makes where nvcc is, beside the addon. */
export function builtCudaKernels(): string {
  return join(dirname(addonPath()), 'cuda-kernels.fatbin');
}

/** SHA-256 of the addon, in hex: another build may do everything in another way. */
export function addonDigest(): string {
  return createHash('sha256').update(readFileSync(addonPath())).digest('hex');
}

/**
 * The addon, or null where it is not built or does not load.
 * @throws ConfigError as `loadNative`.
 */
export function probeNative(): Native | null {
  try {
    return loadNative();
  } catch (error) {
    if (error instanceof NativeAddonError) return null;
    throw error;
  }
}

/**
 * The instruction set to compute with: `wanted`, or the best one.
 * @throws ConfigError when this processor lacks it.
 */
export function chooseIsa(native: Native, wanted: CpuIsa | null): CpuIsa {
  const available = native.instructionSets();
  if (wanted === null) return available[0]!;
  if (!available.includes(wanted)) {
    throw new ConfigError(
      `--cpu-isa ${wanted} is an instruction set that this processor lacks; it has ${available.join(', ')}`,
      { param: 'cpu-isa' },
    );
  }
  return wanted;
}

/**
 * Threads to compute with: `wanted`, or one a physical core.
 * @throws ConfigError when it is no whole number from 1 to 1024.
 */
export function chooseThreads(native: Native, wanted: number | null): number {
  if (wanted === null) return native.physicalCores();
  if (!Number.isInteger(wanted) || wanted < 1 || wanted > 1024) {
    throw new ConfigError(`the number of threads must be from 1 to 1024, got ${wanted}`, {
      param: 'num-threads',
    });
  }
  return wanted;
}

function requireAddon(path: string): unknown {
  try {
    return createRequire(import.meta.url)(path);
  } catch (error) {
    const reason = messageOf(error);
    throw unusable(
      `which does not load (${reason})`,
      `the native addon does not load (${reason}); delete native/build and run \`npm run build\``,
      error,
    );
  }
}

function isNative(value: unknown): value is Native {
  if (typeof value !== 'object' || value === null) return false;
  const names = [
    'CpuBackend',
    'CudaBackend',
    'KvMemory',
    'TransferEngine',
    'crc32c',
    'breakRankGroup',
    'compileCuda',
    'createRankGroup',
    'cudaDevice',
    'instructionSets',
    'nvrtc',
    'physicalCores',
  ];
  return names.every((name) => typeof Reflect.get(value, name) === 'function');
}
