// With which Node and which sources scripts/gpu-check runs where what its pack makes was brought.

import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { needs } from '../helpers/needs.ts';
import { temporaryFolders } from '../helpers/temporary-folder.ts';

const newFolder = temporaryFolders();
const script = fileURLToPath(new URL('../../scripts/gpu-check', import.meta.url));

const has = (tool: string) => spawnSync(tool, ['--version']).error === undefined;

function writeProgram(folder: string, name: string, line: string): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, name), `#!/bin/sh\n${line}\n`, { mode: 0o755 });
}

/** A machine with an old Node, perhaps a tool that unpacks, to which the script and an archive were brought. */
function makeMachine(unpackers: readonly string[]): {
  readonly folder: string;
  readonly run: () => { stdout: string; stderr: string };
} {
  const [machine, packed] = [newFolder(), newFolder()];
  const bin = join(machine, 'bin');
  writeProgram(bin, 'node', 'echo the old one');
  for (const tool of ['bash', 'dirname', 'tar', 'touch']) {
    symlinkSync(spawnSync('which', [tool], { encoding: 'utf8' }).stdout.trim(), join(bin, tool));
  }
  for (const tool of unpackers) writeProgram(bin, tool, `PATH='${process.env.PATH}' exec ${tool} "$@"`);
  writeProgram(join(packed, '.gpu-check/bin'), 'node', 'echo the packed one');
  mkdirSync(join(packed, 'node_modules/tsx'), { recursive: true });
  const sources = ['older', 'newer'];
  for (const name of sources) writeFileSync(join(packed, name), 'packed');
  for (const folder of ['scripts', '.gpu-check']) mkdirSync(join(machine, folder));
  const archive = join(machine, '.gpu-check/packed.tar.xz');
  spawnSync('tar', [
    '--create',
    '--xz',
    '--file',
    archive,
    '-C',
    packed,
    '.gpu-check',
    'node_modules',
    ...sources,
  ]);
  copyFileSync(script, join(machine, 'scripts/gpu-check'));
  const run = () => spawnSync(join(machine, 'scripts/gpu-check'), { encoding: 'utf8', env: { PATH: bin } });
  return { folder: machine, run };
}

it.each([['xz'], ['python3']])(
  'scripts/gpu-check runs with the Node that was packed, the second time too, unpacked by %s',
  needs(['xz', 'python3'].every(has), 'there is no xz or no python3'),
  (tool) => {
    const { run } = makeMachine([tool]);
    for (let time = 0; time < 2; time += 1)
      expect(run()).toMatchObject({ stdout: 'the packed one\n', stderr: '' });
  },
);

it('scripts/gpu-check says what it takes to unpack', needs(has('xz'), 'there is no xz'), () => {
  expect(makeMachine([]).run().stderr).toMatch(/neither xz nor Python/);
});

it('scripts/gpu-check keeps what was changed since it was packed', needs(has('xz'), 'there is no xz'), () => {
  const { folder, run } = makeMachine(['xz']);
  const [older, newer] = ['older', 'newer'].map((name) => join(folder, name));
  writeFileSync(older!, 'brought before');
  utimesSync(older!, 1, 1);
  writeFileSync(newer!, 'changed here');
  utimesSync(newer!, Date.now() / 1000 + 60, Date.now() / 1000 + 60);
  expect(run()).toMatchObject({ stdout: 'the packed one\n', stderr: '' });
  expect([older, newer].map((path) => readFileSync(path!, 'utf8'))).toEqual(['packed', 'changed here']);
});
