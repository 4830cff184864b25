// Which file of kernels a GPU computes with: those that were built, or where they are not, what NVIDIA's compiler makes of their
// sources at the first start, if its library is there. That takes half a minute; later starts find it in the cache folder.

import { createHash, randomUUID } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, parse } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ConfigError } from '../../errors.ts';
import { builtCudaKernels, type Native, type NativeCudaDevice } from '../../native/native.ts';
import { homeFolder } from '../../util/home-folder.ts';
import type { HalfDType } from '../dtype.ts';

export interface CudaKernels {
  readonly path: string;
  /** What made them on this machine, on which their bits hang; '' where they came as machine code. */
  readonly madeBy: string;
}

const SOURCES = fileURLToPath(new URL('../../../native/cuda', import.meta.url));
/** Where the loader, or an installed toolkit, has the compiler. */
const LIBRARIES = [
  'libnvrtc.so.13',
  'libnvrtc.so.12',
  '/usr/local/cuda/lib64/libnvrtc.so.13',
  '/usr/local/cuda/lib64/libnvrtc.so.12',
];
/** What kernels use of the C++ library, which the compiler has no headers of. */
const STANDARD_HEADERS: readonly (readonly [string, string])[] = [
  ['cstddef', '#pragma once\n'],
  [
    'cstdint',
    `#pragma once
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
using int8_t = signed char; using int16_t = short; using int32_t = int; using int64_t = long long;
using uint8_t = unsigned char; using uint16_t = unsigned short; using uint32_t = unsigned; using uint64_t = unsigned long long;
`,
  ],
];
/** As build-cuda.mjs gives nvcc; functions without a word of their own are the device's. */
const FLAGS = ['-std=c++20', '--fmad=false', '-default-device'];
/** Compiled kernels that are kept, those of other versions and GPUs included. */
const MOST_KEPT = 8;

/** @throws ConfigError where there are none and no compiler is found; Error with what the compiler says. */
export function findCudaKernels(native: Native, device: NativeCudaDevice, half: HalfDType): CudaKernels {
  const named = process.env.SVC_CUDA_KERNELS;
  if (named !== undefined) return { path: kernelsFor(half, named), madeBy: '' };
  const built = kernelsFor(half, builtCudaKernels());
  if (existsSync(built)) return { path: built, madeBy: '' };
  const { library, version } = findCompiler(native, device, built);
  const path = compileCached(native, library, version, device.computeCapability, half);
  return { path, madeBy: `nvrtc ${version}` };
}

/** `a/b.fatbin` is for halves of bf16, `a/b-f16.fatbin` beside it for those of f16. */
function kernelsFor(half: HalfDType, path: string): string {
  const { dir, name, ext } = parse(path);
  return half === 'f16' ? join(dir, `${name}-f16${ext}`) : path;
}

/** Kernels for one GPU out of sources; @returns the path of a file in the cache folder, which may have had it already. */
export function compileCached(
  native: Native,
  library: string,
  version: string,
  computeCapability: number,
  half: HalfDType,
  folder: string = SOURCES,
): string {
  const sources = readdirSync(folder)
    .sort()
    .map((name) => [name, readFileSync(join(folder, name), 'utf8')] as const);
  // Instructions of Hopper alone have a name of their own.
  const architecture = `sm_${computeCapability}${computeCapability === 90 ? 'a' : ''}`;
  const flags = [`--gpu-architecture=${architecture}`, ...FLAGS, ...(half === 'f16' ? ['-DSVC_F16'] : [])];
  const key = createHash('sha256')
    .update(JSON.stringify([version, flags, sources]))
    .digest('hex')
    .slice(0, 32);
  const path = join(cacheFolder(), `${architecture}-${key}.cubin`);
  if (existsSync(path)) {
    const now = new Date();
    utimesSync(path, now, now);
    return path;
  }
  const includes = sources.filter(([name]) => name.endsWith('.cu')).map(([name]) => `#include "${name}"\n`);
  const code = native.compileCuda(library, includes.join(''), [...STANDARD_HEADERS, ...sources], flags);
  keep(path, code);
  return path;
}

function findCompiler(native: Native, device: NativeCudaDevice, built: string) {
  const reasons: string[] = [];
  for (const library of process.env.SVC_NVRTC === undefined ? LIBRARIES : [process.env.SVC_NVRTC]) {
    const compiler = native.nvrtc(library);
    if (compiler.missing !== undefined) reasons.push(compiler.missing);
    else if (Number.parseInt(compiler.version, 10) * 1000 > device.driverVersion) {
      reasons.push(`${library} is of CUDA ${compiler.version}, whose code this driver does not take`);
    } else return { library, version: compiler.version };
  }
  throw new ConfigError(
    `the kernels are not built (no ${built}): install the CUDA toolkit 13.0 or newer, so that nvcc is found, and run ` +
      `\`npm run build\`, or install its library NVRTC, with which they are compiled at the start (${reasons.join('; ')})`,
    { param: 'device' },
  );
}

function cacheFolder(): string {
  return join(process.env.XDG_CACHE_HOME || join(homeFolder(), '.cache'), 'svc', 'cuda-kernels');
}

/** Another process may be writing the same file; what was not used for the longest time is removed. */
function keep(path: string, code: Buffer): void {
  const folder = dirname(path);
  mkdirSync(folder, { recursive: true });
  const mine = `${path}.${randomUUID()}`;
  writeFileSync(mine, code);
  renameSync(mine, path);
  const files = readdirSync(folder).map((name) => join(folder, name));
  const byUse = files
    .map((file) => ({ file, usedAt: statSync(file).mtimeMs }))
    .sort((a, b) => b.usedAt - a.usedAt);
  for (const { file } of byUse.slice(MOST_KEPT)) rmSync(file, { force: true });
}
