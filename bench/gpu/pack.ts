// scripts/gpu-check pack [generation]: all that a machine without Node needs beside scripts/gpu-check, as one archive. With kernels for
// one generation of GPUs alone (sm_90a: H100, H200) it is 2 MiB smaller, and made in less than half of the time.

import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT } from './gpu.ts';
import { TRACED_KERNELS } from './trace.ts';

const FOLDER = '.gpu-check';
const STRIPPED = `${FOLDER}/stripped`;
const ARCHIVE = `${FOLDER}/packed.tar.xz`;
/** Most of it is machine code. */
const COMPRESS = 'xz --x86 --lzma2=preset=9e --threads=0';
/** Packages that the parts and the tests that they run start from, beside those of the product. */
const TOOLS = ['tsx', 'vitest', 'fast-check'];
const generation = process.argv[2] ?? null;
const KERNELS = 'native/build/cuda-kernels.fatbin';
/** Where those of one generation are made. */
const MADE_KERNELS = generation === null ? KERNELS : join(STRIPPED, KERNELS);
const HAS_COMPILER = spawnSync('nvcc', ['--version']).status === 0;
/** In the place of the driver: a machine that has none of it may have no compiler either. */
const STAND_INS = readdirSync(join(ROOT, 'bench/gpu'))
  .filter((name) => name.endsWith('.cc'))
  .map((name) => `build/stand-ins/${name.replace('.cc', '.so')}`);
const MADE = ['build/cuda-emulator.so', 'build/cuda-kernels-emulated.so', ...STAND_INS];
const buildKernels = (...args: readonly string[]) => [process.execPath, 'scripts/build-cuda.mjs', ...args];
/** Each does nothing where what it makes is newer than its sources; without a compiler of CUDA there are no kernels for a GPU. */
const BUILDS = [
  [process.execPath, 'scripts/build-native.mjs'],
  ['make', '--silent', '-C', 'native', ...MADE],
  generation === null ? buildKernels('--if-possible') : buildKernels(generation, MADE_KERNELS),
  ...(HAS_COMPILER ? [buildKernels(generation ?? 'sm_90a', TRACED_KERNELS, '--traced')] : []),
];
/** Of those that are there, what a build for x86-64 and glibc leaves. */
const BUILT = [
  'native/build/svc.node',
  // Beside each other, what they have in common takes its room once.
  ...['.fatbin', '-f16.fatbin', '.ptx', '-f16.ptx'].map((end) => MADE_KERNELS.replace('.fatbin', end)),
  TRACED_KERNELS,
  ...MADE.map((path) => join('native', path)),
];
const LEFT_OUT = [
  ...[
    '*.map',
    '*.md',
    '*.d.ts',
    '*.d.cts',
    '*.d.mts',
    '*-musl*',
    '*-arm*',
    '*darwin*',
    '*win32*',
    '*android*',
    // The same program is in the package for this processor.
    'esbuild/bin',
    // Their own tests, and what they are compiled from, nobody here reads.
    ...['*/test', '*/tests', 'zod/src'],
    // Nothing here talks to other instances or reads style sheets.
    ...['zeromq/build', 'lightningcss-linux-x64-gnu'],
  ].map((pattern) => `node_modules/${pattern}`),
];

interface Package {
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

process.chdir(ROOT);
mkdirSync(`${FOLDER}/bin`, { recursive: true });
// Kernels that are there may be of another generation.
for (const path of [ARCHIVE, STRIPPED]) rmSync(path, { recursive: true, force: true });
const node = `${FOLDER}/bin/node`;
copyFileSync(process.execPath, node);
run('strip', node);
for (const [command, ...args] of BUILDS) run(command!, ...args);
for (const path of BUILT.filter((one) => !existsSync(one))) console.log(`not there, so not packed: ${path}`);
const built = BUILT.filter(existsSync).map(stripped);
const options = [`--transform=s,^${STRIPPED}/,,`, ...LEFT_OUT.map((pattern) => `--exclude=${pattern}`)];
const packages = packagesFrom(['.', ...TOOLS.map((name) => `node_modules/${name}`)]);
run(
  'tar',
  '--create',
  `--use-compress-program=${COMPRESS}`,
  `--file=${ARCHIVE}`,
  ...options,
  node,
  ...built,
  ...packages,
  ...trackedFiles(),
);
tryOut();
console.log(`${ARCHIVE}: ${(statSync(ARCHIVE).size / 2 ** 20).toFixed(1)} MiB`);

/** The folders of packages that those in `from` need. */
function packagesFrom(from: readonly string[]): string[] {
  const found = new Set<string>();
  const visit = (folder: string): void => {
    const { dependencies, optionalDependencies, peerDependencies }: Package = JSON.parse(
      readFileSync(join(folder, 'package.json'), 'utf8'),
    );
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies })) {
      const path = [join(folder, 'node_modules', name), join('node_modules', name)].find(existsSync);
      if (path === undefined || found.has(path)) continue;
      found.add(path);
      visit(path);
    }
  };
  for (const folder of from) {
    if (folder !== '.') found.add(folder);
    visit(folder);
  }
  // One that lies in another is packed with it.
  return [...found].filter((path) => !path.includes('/node_modules/'));
}

/** A copy without what a debugger reads; its path in the archive is the old one. */
function stripped(path: string): string {
  if (!path.endsWith('.node') && !path.endsWith('.so')) return path;
  const copy = join(STRIPPED, path);
  mkdirSync(join(copy, '..'), { recursive: true });
  run('strip', '--strip-debug', '-o', copy, path);
  return copy;
}

/** Whatever these tests import has to be there, since what is missing would only be seen where there is a GPU. */
function tryOut(): void {
  const folder = mkdtempSync(join(tmpdir(), 'svc-packed-'));
  try {
    run('tar', '--extract', `--file=${ARCHIVE}`, `--directory=${folder}`);
    const tests = ['ops', 'engine', 'models'].map((name) => `test/${name}/cuda`);
    const vitest = join(folder, 'node_modules/vitest/vitest.mjs');
    run(join(folder, node), vitest, 'list', '--root', folder, ...tests);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function trackedFiles(): string[] {
  const paths = run('git', 'ls-files', '-z').split('\0');
  return paths.filter((path) => path !== '' && existsSync(path));
}

function run(command: string, ...args: readonly string[]): string {
  const { error, status, stderr, stdout } = spawnSync(command, args, {
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
  });
  if (error !== undefined) throw error;
  if (status !== 0) throw new Error(`${command} exited ${status}: ${stderr}`);
  return stdout;
}
