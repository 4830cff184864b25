// Libraries in the place of the driver, which pass on to it what they do not define, and the files of those that they stand in for.

import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cudaDriver, ncclLibrary } from '../../src/native/native.ts';
import { ROOT } from './gpu.ts';

const INCLUDES = [`-I${ROOT}/native/src`, `-I${ROOT}/native`];
const FLAGS = ['-std=c++20', '-O2', '-shared', '-fPIC', '-Wl,--no-as-needed', ...INCLUDES];

/**
 * Compiles a file of this folder.
 * @throws Error where g++ is not there or refuses.
 */
export function buildStandIn(source: string, output: string): void {
  const args = [...FLAGS, '-o', output, `${ROOT}/bench/gpu/${source}`, driverPath()];
  const { error, status, stderr } = spawnSync('g++', args, { encoding: 'utf8' });
  if (error !== undefined) throw error;
  if (status !== 0) throw new Error(`g++ exited ${status}: ${stderr.trim().slice(-1500)}`);
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

export function driverPath(): string {
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
