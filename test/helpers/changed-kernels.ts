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

/** So that one of these lines of `file` is left out: that whose place SVC_LINE_LEFT_OUT names when the library is loaded. */
export function lineLeftOut(file: string, lines: readonly RegExp[]): KernelChange[] {
  const choice = [
    '#include <cstdlib>',
    'static const char* const lineLeftOut = std::getenv("SVC_LINE_LEFT_OUT");',
    'static const int placeLeftOut = lineLeftOut == nullptr ? -1 : std::atoi(lineLeftOut);',
  ];
  return [
    ...lines.map((from, line) => ({ file, from, to: `if (placeLeftOut != ${line}) $&` })),
    { file, from: /^/, to: `${choice.join('\n')}\n` },
  ];
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
    const files = [...new Set(changes.map(({ file }) => file))];
    const sources = files.map((name) => {
      let source = readFileSync(join(native, 'cuda', name), 'utf8');
      for (const { from, to } of changes.filter(({ file }) => file === name)) {
        expect(source).toMatch(from);
        source = source.replace(from, to);
      }
      const path = join(folder, name);
      writeFileSync(path, source);
      return path;
    });
    const replaced = files.map((file) => file.replace('.cu', '.o'));
    const built = join(native, 'build/simt', definitions.includes('SVC_F16') ? 'f16' : 'bf16');
    const objects = readdirSync(built)
      .filter((name) => name.endsWith('.o') && !replaced.includes(name))
      .map((name) => join(built, name));
    const flags = [
      '-std=c++20',
      '-O1',
      '-march=native',
      '-fPIC',
      '-fvisibility=hidden',
      '-shared',
      '-ffp-contract=off',
      '-Wno-unknown-pragmas',
    ];
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
      join(native, 'build/simt/simt.o'),
    ];
    const made = spawnSync('g++', args, { encoding: 'utf8' });
    expect(made.stderr).toBe('');
  } finally {
    rmSync(folder, { recursive: true });
  }
}
