// Builds experiments.cu where nvcc is, and runs its parts one by one: each may fail by itself.

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { ROOT } from './gpu.ts';
import { failed, missing, report } from './result.ts';

const PROGRAMS = ['bits', 'launches', 'ipc', 'memory'];

const folder = mkdtempSync(join(os.tmpdir(), 'svc-gpu-'));
try {
  const program = build(join(folder, 'experiments'));
  for (const name of program === null ? [] : PROGRAMS) {
    const { error, status, stdout, stderr } = spawnSync(program!, [name], {
      encoding: 'utf8',
      timeout: 20_000,
    });
    process.stdout.write(stdout);
    if (error !== undefined || status !== 0)
      report(failed(name, error?.message ?? `exited ${status}: ${stderr.trim()}`));
  }
} finally {
  rmSync(folder, { recursive: true });
}

/** @returns the path of the program, or null where it was not built. */
function build(output: string): string | null {
  const flags = ['-std=c++20', '-O3', '-gencode', 'arch=compute_90a,code=sm_90a'];
  const source = `${ROOT}/bench/gpu/experiments.cu`;
  const { error, status, stderr } = spawnSync('nvcc', [...flags, '-o', output, source], {
    encoding: 'utf8',
    timeout: 40_000,
  });
  if (error === undefined && status === 0) return output;
  const isThere = error === undefined || !('code' in error && error.code === 'ENOENT');
  report(isThere ? failed('nvcc', error?.message ?? stderr) : missing('experiments', 'nvcc is not in PATH'));
  return null;
}
