// The build script on machines that lack something, and with sources that do not compile.

import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { needs } from '../helpers/needs.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const hasCompiler = ['make', 'g++'].every((tool) => spawnSync(tool, ['--version']).error === undefined);
const needsCompiler = needs(hasCompiler, 'there is no make or no g++');

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(os.tmpdir(), 'svc-build-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

function build(script: string, path: string): { status: number | null; stdout: string; stderr: string } {
  return spawnSync(process.execPath, [script], { encoding: 'utf8', env: { ...process.env, PATH: path } });
}

/** The build script in `folder`, with an empty folder of sources. @returns its path */
function copyBuild(): string {
  const script = join(folder, 'scripts/build-native.mjs');
  cpSync(join(root, 'scripts/build-native.mjs'), script);
  cpSync(join(root, 'scripts/build-cuda.mjs'), join(folder, 'scripts/build-cuda.mjs'));
  mkdirSync(join(folder, 'native/src/cpu'), { recursive: true });
  cpSync(join(root, 'native/Makefile'), join(folder, 'native/Makefile'));
  writeFileSync(join(folder, 'native/src/precompiled.h'), '');
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  return script;
}

describe('building the addon', () => {
  it('says in one line that the reference backend serves where there is no compiler', () => {
    const { status, stdout, stderr } = build(join(root, 'scripts/build-native.mjs'), folder);
    expect(status).toBe(0);
    expect(stdout).toBe('');
    expect(stderr).toMatch(/^svc: native backend not built \(make and g\+\+ not found\): .*reference.*\n$/);
  });

  it('builds after an update that moved a source which an earlier build depends on', needsCompiler, () => {
    const script = copyBuild();
    writeFileSync(join(folder, 'native/src/cpu/one.cc'), 'int one() { return 1; }\n');
    mkdirSync(join(folder, 'native/build/cpu'), { recursive: true });
    writeFileSync(join(folder, 'native/build/cpu/one.d'), 'build/cpu/one.o: src/cpu/moved.cc\n');
    const { status, stderr } = build(script, process.env.PATH ?? '');
    expect({ status, stderr }).toMatchObject({ status: 0 });
    expect(existsSync(join(folder, 'native/build/svc.node'))).toBe(true);
  });

  it('compiles anew, and nothing else, after an update of the Makefile', needsCompiler, () => {
    const script = copyBuild();
    mkdirSync(join(folder, 'native/src/cpu/kernels_generic'));
    writeFileSync(
      join(folder, 'native/src/cpu/kernels_generic/one.cc'),
      'namespace SVC_ISA { int one() { return 1; } }\n',
    );
    expect(build(script, process.env.PATH ?? '')).toMatchObject({ status: 0 });
    const makefile = join(folder, 'native/Makefile');
    utimesSync(makefile, new Date(), new Date());
    const again = spawnSync('make', ['-C', join(folder, 'native'), '--silent'], { encoding: 'utf8' });
    expect(again).toMatchObject({ status: 0, stderr: '' });
    expect(again.stdout).toMatch(/^(compiling src\/cpu\/kernels_generic\/one\.cc for \w+\n)+$/);
  });

  it('fails with what the compiler says when a source does not compile', needsCompiler, () => {
    const script = copyBuild();
    writeFileSync(join(folder, 'native/src/cpu/broken.cc'), 'int broken( {\n');
    const { status, stderr } = build(script, process.env.PATH ?? '');
    expect(status).toBe(1);
    expect(stderr).toMatch(/broken\.cc:1:.*error/);
    expect(stderr).toContain('svc: building the native backend failed');
  });
});
