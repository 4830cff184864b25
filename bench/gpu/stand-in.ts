// Libraries in the place of the driver, which pass on to it what they do not define, and the files of those that they stand in for.

import { spawnSync } from 'node:child_process';
import { existsSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { cudaDriver, ncclLibrary } from '../../src/native/native.ts';
import { ROOT } from './gpu.ts';
import { missing, type Result } from './result.ts';

const FOLDER = 'build/stand-ins';

/**
 * @param name of a file of this folder
 * @param folder that is there as long as processes use the library
 * @returns with which variables a process has it in the place of the driver; null where it is neither there nor can be compiled.
 * @throws Error where it does not compile.
 */
export function inPlaceOfDriver(name: string, folder: string): Readonly<Record<string, string>> | null {
  const library = `${ROOT}/native/${FOLDER}/${name}.so`;
  // What was brought to this machine is of its sources, though they may have come later.
  const wasBrought = existsSync(`${ROOT}/.gpu-check/unpacked`) && existsSync(library);
  if (!wasBrought && hasCompiler()) compile(name);
  if (!existsSync(library)) return null;
  const driver = driverPath();
  // By this name the library asks for it.
  symlinkSync(driver, join(folder, 'libcuda.so.1'));
  const { LD_LIBRARY_PATH: others } = process.env;
  return {
    SVC_CUDA_DRIVER: library,
    SVC_DRIVER_BEHIND: driver,
    LD_LIBRARY_PATH: others === undefined ? folder : `${folder}:${others}`,
  };
}

/** Where inPlaceOfDriver gives none. */
export function missingStandIn(name: string): Result {
  return missing(name, 'there is no g++ or no make, and `scripts/gpu-check pack` has left no library here');
}

function hasCompiler(): boolean {
  return ['g++', 'make'].every((tool) => spawnSync(tool, ['--version']).status === 0);
}

function compile(name: string): void {
  const args = ['--silent', '-C', `${ROOT}/native`, `${FOLDER}/${name}.so`];
  const { error, status, stderr } = spawnSync('make', args, { encoding: 'utf8' });
  if (error !== undefined) throw error;
  if (status !== 0) throw new Error(`make exited ${status}: ${stderr.trim().slice(-1500)}`);
}

/**
 * Runs a program of this folder over a library in the place of the driver.
 * @returns what it wrote
 * @throws Error where it fails.
 */
export function runBehind(
  program: string,
  args: readonly string[],
  variables: Readonly<Record<string, string>>,
  seconds: number,
): string {
  const command = ['--import', 'tsx', `${ROOT}/bench/gpu/${program}`, ...args];
  const { error, status, stdout, stderr } = spawnSync(process.execPath, command, {
    cwd: ROOT,
    encoding: 'utf8',
    timeout: 1000 * seconds,
    env: { ...process.env, ...variables },
  });
  if (error !== undefined) throw error;
  if (status !== 0) throw new Error(`${program} exited ${status}: ${stderr.trim().slice(-1500)}`);
  return stdout;
}

function driverPath(): string {
  return pathOf(cudaDriver());
}

/** Where the loader has none, that of PyTorch. */
export function ncclPath(): string {
  const { stdout } = spawnSync('python3', ['-c', 'import nvidia.nccl as it; print(list(it.__path__)[0])'], {
    encoding: 'utf8',
    timeout: 5000,
  });
  const path = `${stdout?.trim()}/lib/libnccl.so.2`;
  return process.env.SVC_NCCL === undefined && existsSync(path) ? path : pathOf(ncclLibrary());
}

/** Where the loader finds a library. */
function pathOf(name: string): string {
  if (name.includes('/')) return name;
  const { stdout } = spawnSync('ldconfig', ['-p'], { encoding: 'utf8' });
  const line = (stdout ?? '').split('\n').find((one) => one.trim().startsWith(name));
  return line?.split(' => ')[1]?.trim() ?? name;
}
