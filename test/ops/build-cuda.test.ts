// What a build of the CUDA kernels leaves behind: a script takes the place of the compiler, which few machines have.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { temporaryFolders } from '../helpers/temporary-folder.ts';
import { until } from '../helpers/until.ts';

const newFolder = temporaryFolders();
const script = fileURLToPath(new URL('../../scripts/build-cuda.mjs', import.meta.url));

/** Writes what nvcc writes, and before that does `first`. */
function buildWith(first: string, flags: readonly string[] = []): { build: ChildProcess; folder: string } {
  const folder = newFolder();
  for (const name of ['out', 'tmp']) mkdirSync(join(folder, name), { recursive: true });
  const nvcc = join(folder, 'nvcc');
  const lines = [
    '#!/bin/sh',
    'if [ "$1" = --version ]; then exit 0; fi',
    first,
    'while [ $# -gt 0 ]; do case "$1" in --keep-dir) kept="$2";; -o) output="$2";; esac; shift; done',
    '[ -n "$PTX" ] || PTX=".version 9.0"',
    'echo "$PTX" > "$kept/kernels.compute_80.ptx"',
    'echo kernels > "$output"',
  ];
  writeFileSync(nvcc, `${lines.join('\n')}\n`, { mode: 0o755 });
  const env = { ...process.env, NVCC: nvcc, TMPDIR: join(folder, 'tmp'), FOLDER: folder };
  const args = [script, 'sm_90a', join(folder, 'out/kernels.fatbin'), ...flags];
  return { build: spawn(process.execPath, args, { env, stdio: ['ignore', 'inherit', 'pipe'] }), folder };
}

it('the CUDA kernels are built into two files for halves of each format and nothing else', async () => {
  const { build, folder } = buildWith('echo "$@" >> "$FOLDER/asked"');
  const said = text(build.stderr!);
  expect(await once(build, 'close')).toEqual([0, null]);
  expect((await said).split('\n')).toEqual([
    expect.stringMatching(/^svc: compiling the kernels for GPUs, bf16, sm_90a: /),
    expect.stringMatching(/^svc: compiling the kernels for GPUs, f16, sm_90a: /),
    '',
  ]);
  expect(readdirSync(join(folder, 'out'))).toEqual([
    'kernels-f16.fatbin',
    'kernels-f16.ptx',
    'kernels.fatbin',
    'kernels.ptx',
  ]);
  const asked = readFileSync(join(folder, 'asked'), 'utf8').trim().split('\n');
  expect(asked.map((flags) => flags.includes('-DSVC_F16'))).toEqual([false, true]);
  expect(readFileSync(join(folder, 'out/kernels.ptx'), 'utf8')).toBe('.version 7.0\n');
  expect(readdirSync(join(folder, 'tmp'))).toEqual([]);
});

it('a kernel that would stop where it runs ends the build', async () => {
  const ptx = ['.version 9.0', '.visible .entry svcOne(', 'ret;', '.visible .entry svcTwo(', '\ttrap;'].join(
    '\n',
  );
  const { build, folder } = buildWith(`PTX='${ptx}'`);
  const said = text(build.stderr!);
  expect(await once(build, 'close')).toEqual([1, null]);
  expect(await said).toMatch(
    /\nsvc: CUDA kernels read what only the host has, and would stop there: svcTwo\n$/,
  );
  expect(readdirSync(join(folder, 'out'))).toEqual([]);
});

it('traced kernels are machine code alone: what is packed with them is large enough', async () => {
  const { build, folder } = buildWith('echo "$@" > "$FOLDER/asked"', ['--traced']);
  expect(await once(build, 'close')).toEqual([0, null]);
  expect(readdirSync(join(folder, 'out'))).toEqual(['kernels.fatbin']);
  const asked = readFileSync(join(folder, 'asked'), 'utf8');
  expect(asked.match(/code=\w+/g)).toEqual(['code=sm_90a']);
});

it('a build of them that is killed leaves nothing beside what it would have made', async () => {
  // Ends with the build, whose pipe breaks.
  const { build, folder } = buildWith(
    'touch "$FOLDER/started"; while sleep 0.05 && echo .; do :; done; exit 1',
  );
  await until(() => existsSync(join(folder, 'started')));
  build.kill('SIGKILL');
  await once(build, 'close');
  expect(readdirSync(join(folder, 'out'))).toEqual([]);
});
