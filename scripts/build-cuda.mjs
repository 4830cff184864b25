// Compiles the kernels of native/cuda/ into one file for all GPUs, native/build/cuda-kernels.fatbin: machine code for each generation,
// and PTX that later drivers compile for later ones. The addon loads it where a GPU is there.
//
//   node scripts/build-cuda.mjs                    all of it
//   node scripts/build-cuda.mjs sm_90a a.fatbin    one generation, into another file
//
// It takes a minute or two of processor time, and only machines with a GPU use the result: so `npm install` and `npm run build` do it
// only where there is a GPU, and the published package always has it. A kernel whose registers spill fails the build.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const native = join(dirname(fileURLToPath(import.meta.url)), '..', 'native');
const sources = join(native, 'cuda');
const nvcc = process.env.NVCC ?? 'nvcc';

const GENERATIONS = ['sm_80', 'sm_86', 'sm_89', 'sm_90a', 'sm_100', 'sm_120'];
/** What later generations are compiled from. */
const PTX = 'compute_80';
/** Sums must have the bits of the emulation: a multiply-add only where the code spells it out. */
const FLAGS = [
  '-std=c++20',
  '-O3',
  '--fmad=false',
  '--expt-relaxed-constexpr',
  '-Werror',
  'all-warnings',
  '-Xptxas',
  '-v',
];

export function hasCompiler() {
  const { error, status } = spawnSync(nvcc, ['--version'], { stdio: 'ignore' });
  return error === undefined && status === 0;
}

export function hasGpu() {
  return existsSync('/dev/nvidiactl');
}

/** Builds the file unless it is newer than what it is made of. @throws Error with what the compiler says. */
export async function buildCuda(
  generations = GENERATIONS,
  output = join(native, 'build', 'cuda-kernels.fatbin'),
) {
  if (isNewest(output)) return;
  mkdirSync(dirname(output), { recursive: true });
  // One module has all kernels only if they are compiled as one source.
  const all = `${output}.cu`;
  const kernels = readdirSync(sources).filter((name) => name.endsWith('.cu'));
  writeFileSync(all, kernels.map((name) => `#include "${join(sources, name)}"\n`).join(''));
  const targets = generations.map((name) => [name.replace('sm', 'compute'), name]);
  const codes = [...targets, [PTX, PTX]].flatMap(([arch, code]) => ['-gencode', `arch=${arch},code=${code}`]);
  const child = spawn(nvcc, [...FLAGS, ...codes, '--threads', '0', '--fatbin', '-o', `${output}.new`, all]);
  const messages = [];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => messages.push(data));
  const [code] = await once(child, 'close');
  const text = Buffer.concat(messages).toString();
  if (code !== 0) throw new Error(`svc: compiling the CUDA kernels failed\n${text}`);
  const spilled = spills(text);
  if (spilled.length > 0) throw new Error(`svc: registers of CUDA kernels spill: ${spilled.join(', ')}`);
  renameSync(`${output}.new`, output);
}

/** Kernels, with their generation, that keep registers in memory. */
function spills(text) {
  const found = [];
  let kernel = '';
  for (const line of text.split('\n')) {
    kernel = /Compiling entry function '(\w+)' for '(\w+)'/.exec(line)?.slice(1).join(' for ') ?? kernel;
    if (/[1-9]\d* bytes spill/.test(line)) found.push(kernel);
  }
  return found;
}

function isNewest(output) {
  if (!existsSync(output)) return false;
  const inputs = [...readdirSync(sources).map((name) => join(sources, name)), fileURLToPath(import.meta.url)];
  const { mtimeMs } = statSync(output);
  return inputs.every((path) => statSync(path).mtimeMs <= mtimeMs);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [generation, output] = process.argv.slice(2);
  try {
    if (!hasCompiler()) throw new Error(`svc: ${nvcc} not found: install the CUDA toolkit 13.0 or newer`);
    await (generation ? buildCuda([generation], output) : buildCuda());
  } catch (error) {
    console.error(error.message);
    process.exitCode = 1;
  }
}
