// The CUDA kernels themselves: compiled by g++ for an emulation in which each thread of a block is a fiber, they are compared
// with plain definitions, and with themselves in other orders of threads; compiled by nvcc, their registers must suffice.

import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { compileChanged, lineLeftOut } from '../helpers/changed-kernels.ts';
import { needs } from '../helpers/needs.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const native = join(root, 'native');
const has = (tool: string) => spawnSync(tool, ['--version']).error === undefined;
const needsCompiler = needs(has('make') && has('g++'), 'there is no make or no g++');
const needsNvcc = needs(has('nvcc'), 'there is no nvcc');
const needsDisassembler = needs(has('nvcc') && has('cuobjdump'), 'there is no nvcc or no cuobjdump');
const LIBRARY = join(native, 'build/cuda-kernels-emulated.so');
const IN_F16 = join(native, 'build/cuda-kernels-emulated-f16.so');
const ORDERS = ['forward', 'backward', 'shuffled'];
const WARPGROUPS = ['SVC_EMULATE_WARPGROUPS'];

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'svc-kernels-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

/** What a program shows of a file's kernels has to be other, in some order, where one of the lines is left out. */
function itNeeds(
  program: string,
  file: string,
  definitions: readonly string[],
  lines: readonly (readonly [what: string, line: RegExp])[],
) {
  describe(`by ${program}${definitions.length === 0 ? '' : ` with ${definitions.join(' and ')}`} in ${file}`, () => {
    let library: string;
    let whole: Output;
    beforeAll(async () => {
      library = join(folder, 'without-a-line.so');
      const patterns = lines.map(([, line]) => line);
      compileChanged(library, lineLeftOut(file, patterns), definitions);
      whole = await check(library, 'forward', program);
    }, 120_000);

    it('have outputs', () => {
      expect(whole).toMatchObject({ stderr: '', code: 0 });
      expect(whole.stdout).toMatch(/^(?:\w.* [0-9a-f]{16}\n)+$/);
    });

    it.each(lines.map(([what], place) => [what, place] as const))(
      'have others in some order without %s',
      async (_, place) => {
        const isOther = async (order: string) => {
          const { stdout, stderr } = await check(library, order, program, { SVC_LINE_LEFT_OUT: `${place}` });
          // What is not loaded prints something else, too.
          expect(stderr).not.toContain('undefined symbol');
          return stdout !== whole.stdout;
        };
        // The order in which most faults show comes first.
        const [first, ...others] = ORDERS.toReversed();
        expect((await isOther(first!)) || (await Promise.all(others.map(isOther))).includes(true)).toBe(true);
      },
      120_000,
    );
  });
}

describe('the CUDA kernels', needsCompiler, () => {
  beforeAll(() => {
    const targets = ['', '-f16'].flatMap((half) => [
      `build/cuda-kernels-emulated${half}.so`,
      `build/cuda-kernels-check${half}`,
    ]);
    const made = spawnSync('make', ['--silent', '-j2', '-C', native, 'WERROR=-Werror', ...targets], {
      encoding: 'utf8',
    });
    expect(made.stderr).toBe('');
  }, 300_000);

  it('have the results of plain definitions, for rows alone as among others, in every order of threads', async () => {
    const outputs = await Promise.all(ORDERS.map((order) => check(LIBRARY, order)));
    expect(outputs.map(({ stderr, code }) => ({ stderr, code }))).toEqual(
      ORDERS.map(() => ({ stderr: '', code: 0 })),
    );
    expect(outputs[0]?.stdout).toMatch(/svcSample [0-9a-f]{16}/);
    expect(new Set(outputs.map(({ stdout }) => stdout)).size).toBe(1);
  }, 120_000);

  it('have them with halves of f16', async () => {
    const { stdout, stderr, code } = await check(
      IN_F16,
      'shuffled',
      null,
      {},
      'build/cuda-kernels-check-f16',
    );
    expect({ stderr, code }).toEqual({ stderr: '', code: 0 });
    expect(stdout).toMatch(/svcSample [0-9a-f]{16}/);
  }, 120_000);

  itNeeds(
    'bytes-of-linear',
    'linear.cu',
    [],
    [
      ['a barrier before a tile is read', /^ +__syncthreads\(\);$/m],
      ['a barrier after a tile was read', /^ +__syncthreads\(\); {2}\/\/ the last tile has been read$/m],
      ['a wait for copies', /^ +waitForCopies<kStages - 2>\(\);$/m],
      ['a wait for the kernel before it', /^ +awaitBefore\(\);$/m],
    ],
  );
  itNeeds(
    'bytes-of-attention',
    'attention.cu',
    [],
    [
      ['a barrier before a tile is multiplied', /^ +__syncthreads\(\); {2}\/\/ all of this one is there.*$/m],
      ['a barrier after keys were multiplied', /^ +__syncthreads\(\); {2}\/\/ the keys have been read$/m],
      ['a wait for a tile that is copied', /^ +waitForCopies<0>\(\);$/m],
      ['a barrier before wide keys are multiplied', /^ +__syncthreads\(\); {2}\/\/ the keys are there$/m],
      [
        'a barrier after wide keys were multiplied',
        /^ +__syncthreads\(\); {2}\/\/ they have been read, and the scores.*$/m,
      ],
      [
        'a barrier before wide values are multiplied',
        /^ +__syncthreads\(\); {2}\/\/ the values are there, and the places.*$/m,
      ],
      [
        'a barrier after wide values were multiplied',
        /^ +__syncthreads\(\); {2}\/\/ the values are read, and the places.*$/m,
      ],
      ['a wait for the kernel before it', /^ +awaitBefore\(\); {2}\/\/ what the host has sent.*$/m],
      ['a wait for the states of chunks', /^ {2}awaitBefore\(\);$/m],
    ],
  );
  itNeeds(
    'recurrent',
    'recurrent.cu',
    [],
    [
      ['a barrier before tokens are read', /^ +__syncthreads\(\); {2}\/\/ these tokens are there$/m],
      ['a barrier after tokens were read', /^ +__syncthreads\(\); {2}\/\/ they have been read$/m],
      ['a wait for tokens that are copied', /^ +waitForCopies<1>\(\);$/m],
      ['a wait of a convolution for the kernel before it', /^ +awaitBefore\(\);\n(?= +const Channel)/m],
      ['a wait of states of heads for the kernel before it', /^ +awaitBefore\(\);\n(?= +if \(rows == 0\))/m],
    ],
  );
  itNeeds('streams', 'streams.cu', [], [['a barrier before factors are read', /^ +__syncthreads\(\);$/m]]);
});

describe('the CUDA kernels with products of warpgroups', needsCompiler, () => {
  it('have the bytes of those of warps, which the emulation rounds alike, in every order of threads', async () => {
    const library = join(folder, 'warpgroups.so');
    compileChanged(library, [{ file: 'linear.cu', from: /^/, to: '' }], WARPGROUPS);
    const expected = await check(LIBRARY, 'forward', 'linear');
    const outputs = await Promise.all(ORDERS.map((order) => check(library, order, 'linear')));
    expect(outputs).toEqual(ORDERS.map(() => expected));
    expect(expected.stdout).toMatch(/svcLinear [0-9a-f]{16}/);
  }, 120_000);

  itNeeds('bytes-of-linear', 'linear.cu', WARPGROUPS, [
    ['a wait for products', /^ +waitForProducts<0>\(sums\[0\]\);$/m],
    ['a wait for copies', /^ +waitForCopies<kStages - 2>\(\);$/m],
    ['a barrier before a tile is read', /^ +__syncthreads\(\);$/m],
  ]);
});

describe('the CUDA kernels of Hopper for products', needsCompiler, () => {
  it('have the bytes of the others, in every order of threads and of copies', async () => {
    const library = join(folder, 'wide.so');
    compileChanged(library, [{ file: 'linear_wide.cu', from: /^/, to: '' }], WARPGROUPS);
    const outputs = await Promise.all(ORDERS.map((order) => check(library, order, 'wide')));
    expect(outputs).toEqual(ORDERS.map(() => ({ ...outputs[0], stderr: '', code: 0 })));
    expect(outputs[0]?.stdout).toMatch(/svcWide [0-9a-f]{16}/);
  }, 120_000);

  itNeeds('bytes-of-wide', 'linear_wide.cu', WARPGROUPS, [
    ['a wait for a tile that is copied', /^ +waitForRound\(full\(.*$/m],
    ['a wait for room for a tile', /^ +waitForRound\(empty\(.*$/m],
    ['a wait for the kernel before it', /^ +awaitBefore\(\);\n(?= +eachTile)/m],
    ['a wait before a tile is given back', /^ +waitForProducts<1>\(sums\);$/m],
    ['a wait for the products of a segment', /^ +waitForProducts<0>\(sums\);$/m],
  ]);
});

describe('the CUDA kernels for a GPU', needsNvcc, () => {
  /** Builds the kernels of one format of halves: machine code of these generations, or PTX where there are none. @returns its path. */
  function build(half: string, generations: readonly string[], flags = ''): string {
    const output = join(folder, `${half}.fatbin`);
    const hasPtx = generations.length === 0;
    const call = `buildHalf('${half}', ${JSON.stringify(generations)}, '${output}', { hasPtx: ${hasPtx} })`;
    const program = `import { buildHalf } from './scripts/build-cuda.mjs'; await ${call};`;
    const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], {
      cwd: root,
      encoding: 'utf8',
      // The compiler crashes over a sanitizer.
      env: { ...process.env, LD_PRELOAD: '', NVCC_APPEND_FLAGS: flags },
    });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(statSync(output).size).toBeGreaterThan(100_000);
    if (!hasPtx) return output;
    const ptx = join(folder, `${half}.ptx`);
    expect(readFileSync(ptx, 'utf8')).toMatch(/^\.version 7\.0\n\.target sm_80$/m);
    return ptx;
  }

  it('are compiled without a warning and without registers that spill', () => {
    build('bf16', ['sm_90a']);
  }, 900_000);

  // To make them fast takes the compiler most of its time. At -O1 it uses all that -O3 does of what versions of PTX differ in, hints
  // included, at less than half of what both and the assembler take.
  it('are compiled to PTX for the assembler of older drivers', () => {
    const ptx = build('bf16', [], '-Xcicc -O1');
    const assembled = spawnSync('ptxas', ['-O0', '-arch=sm_80', ptx, '-o', join(folder, 'sm_80.cubin')], {
      encoding: 'utf8',
    });
    expect(assembled).toMatchObject({ status: 0, stderr: '' });
  }, 900_000);

  // The same sources: they need the same registers.
  it('are compiled without a warning with halves of f16', () => {
    build('f16', [], '-Xcicc -O0');
  }, 900_000);

  // An instruction for eight tokens among wide ones would be a group of no products, whose wait is one for all that were called.
  it.each([
    ['linear', [8, 16, 32, 64, 128].map((tokens) => `HGMMA.64x${tokens}`)],
    ['linear_wide', [...[8, 16, 32, 64, 128, 256].map((tokens) => `HGMMA.64x${tokens}`), 'UTMALDG.2D']],
  ])(
    'of %s multiply by the instruction of warpgroups on Hopper',
    { ...needsDisassembler, timeout: 120_000 },
    (source, expected) => {
      const cubin = join(folder, `${source}.cubin`);
      const flags = ['-std=c++20', '--fmad=false', '--expt-relaxed-constexpr', '-cubin'];
      const target = ['-gencode', 'arch=compute_90a,code=sm_90a'];
      const file = join(native, `cuda/${source}.cu`);
      expect(spawnSync('nvcc', [...flags, ...target, '-o', cubin, file]).status).toBe(0);
      const { stdout } = spawnSync('cuobjdump', ['-sass', cubin], { encoding: 'utf8', maxBuffer: 2 ** 28 });
      const found = new Set(stdout.match(/\b(?:HGMMA|HMMA|LDL|STL|UTMALDG)(?:\.(?:64x\d+|2D))?/g));
      expect(found).toEqual(new Set(expected));
    },
  );
});

interface Output {
  readonly stdout: string;
  readonly stderr: string;
  readonly code: number | null;
}

/** Runs the checks, or a part of them, with the kernels of `library`. */
async function check(
  library: string,
  order: string,
  part: string | null = null,
  env: NodeJS.ProcessEnv = {},
  checks = 'build/cuda-kernels-check',
): Promise<Output> {
  const child = spawn(checks, [library, ...(part === null ? [] : [part])], {
    cwd: native,
    env: { ...process.env, SVC_SIMT_ORDER: order, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const closed = new Promise<number | null>((resolve) => child.once('close', resolve));
  const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), closed]);
  return { stdout, stderr, code };
}
