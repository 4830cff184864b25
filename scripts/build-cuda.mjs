// Compiles the kernels of native/cuda/ into one file for all GPUs, native/build/cuda-kernels.fatbin: machine code for each generation,
// and PTX that later drivers compile for later ones; and cuda-kernels.ptx, which drivers take that are too old for the compiler's
// machine code. The halves of these are bf16; cuda-kernels-f16.fatbin and cuda-kernels-f16.ptx are the same for f16. The addon loads them
// where a GPU is there.
//
//   node scripts/build-cuda.mjs                    all of it
//   node scripts/build-cuda.mjs sm_90a a.fatbin    one generation, into other files: a.fatbin, a-f16.fatbin
//   node scripts/build-cuda.mjs sm_90a a.fatbin --traced    for bf16 its machine code alone, of kernels that write down when their blocks run (native/cuda/trace.cuh)
//   node scripts/build-cuda.mjs --if-possible      all of it where nvcc is, elsewhere a line that says what the package lacks
//
// It takes some minutes of processor time, and only machines with a GPU use the result: so `npm install` and `npm run build` do it
// only where there is a GPU. `npm publish` needs it (prepublishOnly). `npm pack` does it where it can (prepack): npm runs that for every
// install from git too, where a missing compiler must not fail. A kernel whose registers spill fails the build.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const native = join(dirname(fileURLToPath(import.meta.url)), '..', 'native');
const sources = join(native, 'cuda');
const nvcc = process.env.NVCC ?? 'nvcc';

const GENERATIONS = ['sm_80', 'sm_86', 'sm_89', 'sm_90a', 'sm_100', 'sm_120'];
/** What later generations are compiled from. */
const PTX = 'compute_80';
/** The oldest version of PTX with all that the kernels use: drivers from 450 on read it. The compiler names its own, newest one. */
const OLDEST_PTX = '.version 7.0';
/** Sums must have the bits of the emulation: a multiply-add only where the code spells it out. */
const FLAGS = ['-std=c++20', '-O3', '--fmad=false', '--expt-relaxed-constexpr', '-Werror', 'all-warnings'];

export function hasCompiler() {
  const { error, status } = spawnSync(nvcc, ['--version'], { stdio: 'ignore' });
  return error === undefined && status === 0;
}

export function hasGpu() {
  return existsSync('/dev/nvidiactl');
}

/**
 * Builds all files but those that are newer than what they are made of, and says so where it has any to build.
 * @throws Error with what the compiler says.
 */
export async function buildCuda(
  generations = GENERATIONS,
  output = join(native, 'build', 'cuda-kernels.fatbin'),
  isTraced = false,
) {
  const outputs = { bf16: output, f16: output.replace(/\.fatbin$/, '-f16.fatbin') };
  for (const half of isTraced ? ['bf16'] : ['bf16', 'f16']) {
    if (outputsOf(outputs[half], !isTraced).every(isNewest)) continue;
    console.error(
      `svc: compiling the kernels for GPUs, ${half}, ${generations.join(', ')}: a minute of a core for each, or more`,
    );
    await buildHalf(half, generations, outputs[half], { isTraced });
  }
}

/** Builds those of one format of halves, bf16 or f16: machine code, and PTX where it is wanted; without a generation, PTX alone. */
export async function buildHalf(half, generations, output, { isTraced = false, hasPtx = !isTraced } = {}) {
  mkdirSync(dirname(output), { recursive: true });
  // The machine cleans up after a build that was killed.
  const intermediate = mkdtempSync(join(tmpdir(), 'svc-cuda-'));
  try {
    await compileInto(intermediate, half, generations, { isTraced, hasPtx });
    if (hasPtx) {
      // The compiler names it after its target where there are others.
      const name = generations.length > 0 ? `kernels.${PTX}.ptx` : 'kernels.ptx';
      const text = readFileSync(join(intermediate, name), 'utf8');
      const trapped = traps(text);
      if (trapped.length > 0) {
        throw new Error(
          `svc: CUDA kernels read what only the host has, and would stop there: ${trapped.join(', ')}`,
        );
      }
      writeFileSync(`${ptxOf(output)}.new`, asOldest(text));
    }
    copyFileSync(join(intermediate, 'kernels.fatbin'), `${output}.new`);
    for (const path of outputsOf(output, hasPtx)) renameSync(`${path}.new`, path);
  } finally {
    rmSync(intermediate, { recursive: true });
  }
}

function outputsOf(output, hasPtx) {
  return hasPtx ? [output, ptxOf(output)] : [output];
}

function ptxOf(output) {
  return output.replace(/\.fatbin$/, '.ptx');
}

/** Leaves kernels.fatbin in `folder`, and beside it the PTX that it has, if any. */
async function compileInto(folder, half, generations, { isTraced, hasPtx }) {
  // One module has all kernels only if they are compiled as one source.
  const all = join(folder, 'kernels.cu');
  const kernels = readdirSync(sources).filter((name) => name.endsWith('.cu'));
  writeFileSync(all, kernels.map((name) => `#include "${join(sources, name)}"\n`).join(''));
  const machineCode = generations.map((name) => [name.replace('sm', 'compute'), name]);
  const targets = hasPtx ? [...machineCode, [PTX, PTX]] : machineCode;
  // Packages and archives compress the whole file, and what is compressed already as if it were noise.
  const codes = [
    '--no-compress',
    ...targets.flatMap(([arch, code]) => ['-gencode', `arch=${arch},code=${code}`]),
  ];
  const kept = ['--keep', '--keep-dir', folder];
  const output = join(folder, 'kernels.fatbin');
  const spilled = spills(
    await compile(
      ...(isTraced ? ['-DSVC_TRACE'] : []),
      ...(half === 'f16' ? ['-DSVC_F16'] : []),
      '-Xptxas',
      '-v',
      ...codes,
      ...kept,
      '--threads',
      '0',
      '--fatbin',
      '-o',
      output,
      all,
    ),
  );
  if (spilled.length > 0) throw new Error(`svc: registers of CUDA kernels spill: ${spilled.join(', ')}`);
}

/** PTX in the words of the oldest version: hints that are newer, of bytes of a load that are not used, are left out. */
function asOldest(text) {
  return text.replace(/^\.version .*$/m, OLDEST_PTX).replaceAll(/^\s*\.pragma "used_bytes_mask .*\n/gm, '');
}

/** @returns what the compiler says. */
async function compile(...args) {
  const child = spawn(nvcc, [...FLAGS, ...args]);
  const messages = [];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => messages.push(data));
  const [code] = await once(child, 'close');
  const text = Buffer.concat(messages).toString();
  if (code !== 0) throw new Error(`svc: compiling the CUDA kernels failed\n${text}`);
  return text;
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

/** Kernels in whose place the compiler has left none: it says nothing of an array of the host that one indexes. */
function traps(ptx) {
  const kernels = ptx.split(/^\.visible \.entry /m).slice(1);
  return kernels.filter((text) => /^\s*trap;/m.test(text)).map((text) => text.slice(0, text.indexOf('(')));
}

function isNewest(output) {
  if (!existsSync(output)) return false;
  const inputs = [...readdirSync(sources).map((name) => join(sources, name)), fileURLToPath(import.meta.url)];
  const { mtimeMs } = statSync(output);
  return inputs.every((path) => statSync(path).mtimeMs <= mtimeMs);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const flags = process.argv.slice(2);
  const isTraced = flags.includes('--traced');
  const [first, output] = flags.filter((flag) => flag !== '--traced');
  const isOptional = first === '--if-possible';
  const generation = isOptional ? undefined : first;
  try {
    if (hasCompiler()) await (generation ? buildCuda([generation], output, isTraced) : buildCuda());
    else if (isOptional)
      console.error(`svc: ${nvcc} not found: the package has no compiled kernels for GPUs`);
    else throw new Error(`svc: ${nvcc} not found: install the CUDA toolkit 13.0 or newer`);
  } catch (error) {
    console.error(error.message);
    process.exitCode = 1;
  }
}
