// scripts/gpu-check pack, and with which Node the check runs where what it makes was brought.

import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
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
function makeMachine(unpackers: readonly string[]): () => { stdout: string; stderr: string } {
  const [machine, packed] = [newFolder(), newFolder()];
  const bin = join(machine, 'bin');
  writeProgram(bin, 'node', 'echo the old one');
  for (const tool of ['bash', 'dirname', 'tar', 'touch']) {
    symlinkSync(spawnSync('which', [tool], { encoding: 'utf8' }).stdout.trim(), join(bin, tool));
  }
  for (const tool of unpackers) writeProgram(bin, tool, `PATH='${process.env.PATH}' exec ${tool} "$@"`);
  writeProgram(join(packed, '.gpu-check/bin'), 'node', 'echo the packed one');
  mkdirSync(join(packed, 'node_modules/tsx'), { recursive: true });
  for (const folder of ['scripts', '.gpu-check']) mkdirSync(join(machine, folder));
  const archive = join(machine, '.gpu-check/packed.tar.xz');
  spawnSync('tar', ['--create', '--xz', '--file', archive, '-C', packed, '.gpu-check', 'node_modules']);
  copyFileSync(script, join(machine, 'scripts/gpu-check'));
  return () => spawnSync(join(machine, 'scripts/gpu-check'), { encoding: 'utf8', env: { PATH: bin } });
}

it.each([['xz'], ['python3']])(
  'scripts/gpu-check runs with the Node that was packed, the second time too, unpacked by %s',
  needs(['xz', 'python3'].every(has), 'there is no xz or no python3'),
  (tool) => {
    const run = makeMachine([tool]);
    for (let time = 0; time < 2; time += 1)
      expect(run()).toMatchObject({ stdout: 'the packed one\n', stderr: '' });
  },
);

it('scripts/gpu-check says what it takes to unpack', needs(has('xz'), 'there is no xz'), () => {
  expect(makeMachine([])().stderr).toMatch(/neither xz nor Python/);
});

it('scripts/gpu-check pack says before it builds anything that there is no room beside the tracked files', () => {
  const folder = newFolder();
  writeProgram(folder, 'git', `printf '${folder}/large\\0'`);
  writeFileSync(join(folder, 'large'), '');
  truncateSync(join(folder, 'large'), 40 * 2 ** 20);
  const { status, stderr } = spawnSync(script, ['pack'], {
    encoding: 'utf8',
    env: { ...process.env, PATH: `${folder}:${process.env.PATH}` },
    timeout: 20_000,
  });
  expect({ status, stderr }).toEqual({
    status: 1,
    stderr: expect.stringContaining(
      'the tracked files take 40.0 MiB: with the archive that is more than 64.0 MiB',
    ),
  });
});
