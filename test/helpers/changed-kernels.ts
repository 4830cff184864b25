// The emulated kernels of GPUs with changes that a test must notice.

import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';

const native = fileURLToPath(new URL('../../native', import.meta.url));

/** Of a file of native/cuda/: what is replaced by what. */
export interface KernelChange {
  readonly file: string;
  readonly from: RegExp;
  readonly to: string;
}

/**
 * Writes a library of all kernels, with the changed files in the place of their own; the others are those that make has built.
 * @param definitions that the changed files are compiled with
 */
export function compileChanged(
  library: string,
  changes: readonly KernelChange[],
  definitions: readonly string[] = [],
): void {
  const folder = mkdtempSync(join(os.tmpdir(), 'svc-changed-'));
  try {
    const sources = changes.map(({ file, from, to }) => {
      const source = readFileSync(join(native, 'cuda', file), 'utf8');
      expect(source).toMatch(from);
      const path = join(folder, file);
      writeFileSync(path, source.replace(from, to));
      return path;
    });
    const replaced = changes.map(({ file }) => file.replace('.cu', '.o'));
    const objects = readdirSync(join(native, 'build/simt'))
      .filter((name) => name.endsWith('.o') && !replaced.includes(name))
      .map((name) => join(native, 'build/simt', name));
    const flags = ['-std=c++20', '-O1', '-fPIC', '-shared', '-ffp-contract=off', '-Wno-unknown-pragmas'];
    const include = ['-I', join(native, 'cuda'), '-I', join(native, 'test/simt')];
    const args = [
      ...flags,
      ...definitions.map((name) => `-D${name}`),
      ...include,
      '-o',
      library,
      '-x',
      'c++',
      ...sources,
      '-x',
      'none',
      ...objects,
    ];
    const made = spawnSync('g++', args, { encoding: 'utf8' });
    expect(made.stderr).toBe('');
  } finally {
    rmSync(folder, { recursive: true });
  }
}
