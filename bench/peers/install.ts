// Installs the peer beside this file, from npm packages alone: its kernels come compiled in a package of their own, so that nothing is
// downloaded from elsewhere or compiled.

import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';

const FOLDER = import.meta.dirname;

const manifest = z.object({ dependencies: z.record(z.string(), z.string()) });
const installed = z.object({ version: z.string() });

/** What npm is told: the optional packages are kernels for graphics cards, of several hundred megabytes. */
const NPM_ARGS = [
  'install',
  '--ignore-scripts',
  '--omit=optional',
  '--no-package-lock',
  '--no-audit',
  '--no-fund',
];

/** Lines of npm's errors that are shown: the first ones tell why. */
const NPM_LINES = 3;

/** @throws Error where npm cannot fetch the packages. */
export function installPeer(): void {
  if (isInstalled()) return;
  console.error(`installing node-llama-cpp into ${join(FOLDER, 'node_modules')}`);
  const { status, error, stderr } = spawnSync('npm', NPM_ARGS, { cwd: FOLDER, encoding: 'utf8' });
  if (status === 0 && isInstalled()) return;
  const said = error?.message ?? stderr.split('\n').filter((line) => line.startsWith('npm error'));
  throw new Error(
    'npm could not install what bench/peers/package.json names: bench:peers needs a registry of npm packages, and Linux on x86-64\n' +
      [said].flat().slice(0, NPM_LINES).join('\n'),
  );
}

/** Whether every dependency is there in the version that package.json pins. */
function isInstalled(): boolean {
  const { dependencies } = manifest.parse(readJson(join(FOLDER, 'package.json')));
  return Object.entries(dependencies).every(([name, version]) => {
    const path = join(FOLDER, 'node_modules', name, 'package.json');
    return existsSync(path) && installed.parse(readJson(path)).version === version;
  });
}

function readJson(path: string): unknown {
  return JSON.parse(readFileSync(path, 'utf8'));
}
