// scripts/gpu-check, with the emulated GPU for its parts that tell right from wrong.

import { spawn, spawnSync } from 'node:child_process';
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { measureModel } from '../../bench/gpu/measure-model.ts';
import { measureTransfers } from '../../bench/gpu/measure-transfers.ts';
import { CALLS, PART_NAMES, PARTS } from '../../bench/gpu/parts.ts';
import { profileModel } from '../../bench/gpu/profile-model.ts';
import { runPart } from '../../bench/gpu/run-part.ts';
import { showSeveralGpus } from '../../bench/gpu/several-gpus.ts';
import { inPlaceOfDriver } from '../../bench/gpu/stand-in.ts';
import { runTestFile } from '../../bench/gpu/test-files.ts';
import { timelineOf } from '../../bench/gpu/timeline.ts';
import { figuresOf, traceOf } from '../../bench/gpu/trace.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { compileChanged } from '../helpers/changed-kernels.ts';
import { needsCudaEmulator } from '../helpers/cuda-emulator.ts';
import { CUDA_EMULATOR, NCCL_EMULATOR } from '../helpers/emulator-files.ts';
import { until } from '../helpers/until.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(os.tmpdir(), 'svc-gpu-check-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

const sections = z.array(
  z.object({
    part: z.string(),
    results: z.array(z.object({ name: z.string(), outcome: z.string(), note: z.string() })),
  }),
);

async function check(args: readonly string[], variables: Readonly<Record<string, string>> = {}) {
  const output = mkdtempSync(join(folder, 'output-'));
  const child = spawn('scripts/gpu-check', ['--output', output, ...args], {
    cwd: root,
    env: { ...process.env, ...CUDA_EMULATOR, ...variables },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const closed = new Promise<number | null>((resolve) => child.once('close', resolve));
  const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), closed]);
  const found = () => sections.parse(JSON.parse(readFileSync(join(output, 'gpu-check.json'), 'utf8')));
  return { stdout, stderr, code, found };
}

describe('scripts/gpu-check', () => {
  it.each([
    ['a part that is not there', ['speed'], /no part is called speed\nusage: .*\n(?:.*\n)*.*invariance /],
    ['an option that is not there', ['--fast'], /Unknown option '--fast'/],
    ['a number that is none', ['--most-rows', 'all'], /--most-rows must be a whole number above 0, got all/],
  ])('refuses %s', async (_, args, message) => {
    const { code, stderr } = await check(args);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringMatching(message) });
  });

  // Three that wait more than they work.
  it.concurrent('stops a part whose time is over, and keeps what it has found', async () => {
    const program = join(folder, 'endless.mjs');
    const line = JSON.stringify({
      name: 'one',
      outcome: 'passed',
      value: null,
      unit: '',
      goal: null,
      note: '',
    });
    writeFileSync(program, `console.log('${line}'); setInterval(() => {}, 1000);`);
    const { results } = await runPart(program, [], 5);
    expect(results.map(({ name, outcome }) => [name, outcome])).toEqual([
      ['one', 'passed'],
      ['its time', 'failed'],
    ]);
  });

  it.concurrent('goes on where something that a part has started neither ends nor lets go of its output', async () => {
    const program = join(folder, 'holding.mjs');
    writeFileSync(
      program,
      `import { spawn } from 'node:child_process';
const { pid } = spawn('sleep', ['60'], { detached: true, stdio: 'inherit' });
console.error(pid);
process.exit(3);`,
    );
    const { results, messages, seconds } = await runPart(program, [], 20);
    process.kill(Number(messages));
    expect(seconds).toBeLessThan(20);
    expect(results).toMatchObject([{ name: 'its end', note: expect.stringMatching(/^exited 3: \d+$/) }]);
  });

  it.concurrent('keeps what a file of tests has come to where it does not end', async () => {
    const file = 'test/bench/gpu-check-end.test.ts';
    const run = { gpus: 0, variables: { SVC_TEST_ENDLESS: '1' } };
    let results = await runTestFile(file, { ...run, seconds: 10 });
    // A busy machine may not have come to the first test by then.
    for (const seconds of [30, 90]) {
      if (results.length === 1) results = await runTestFile(file, { ...run, seconds });
    }
    expect(results).toMatchObject([
      { name: expect.stringMatching(/comes to an end$/), outcome: 'passed' },
      { name: file, outcome: 'failed', note: expect.stringMatching(/^ended before its tests had: /) },
    ]);
  }, 150_000);

  it('is told in two commands, each within ten minutes', () => {
    expect([...CALLS.flat()].sort()).toEqual([...PART_NAMES].sort());
    for (const names of CALLS) {
      expect(names.reduce((sum, name) => sum + PARTS[name].seconds, 0)).toBeLessThanOrEqual(570);
    }
  });

  it('says what a part wrote that ended badly', async () => {
    const program = join(folder, 'broken.mjs');
    writeFileSync(program, "throw new Error('no such thing');");
    const { results } = await runPart(program, [], 20);
    expect(results).toMatchObject([
      { outcome: 'failed', note: expect.stringMatching(/^exited 1: (?:.*\n)*.*no such thing/) },
    ]);
  });
});

describe('scripts/gpu-check on a GPU', needsCudaEmulator, () => {
  it('passes where rows have the bytes of the emulation and of themselves among others, in the order given', async () => {
    const { stdout, stderr, code, found } = await check(['invariance', 'rows', '--most-rows', '10']);
    expect({ stderr, code }).toEqual({ stderr: '', code: 0 });
    expect(stdout).toMatch(/15 passed, 0 failed, 0 measured, 0 missing\n$/);
    expect(found().map(({ part, results }) => [part, results.length])).toEqual([
      ['invariance', 13],
      ['rows', 2],
    ]);
    // Not one after the other: so many numbers would take the host longest of all.
    expect(found()[0]!.results[0]).toEqual({
      name: 'attention, heads of 512: last tokens',
      outcome: 'passed',
      note: '5 numbers of tokens from 1 to 9',
    });
  });

  it('writes what a part has found before the next one ends, and leaves what was written whole', async () => {
    const output = mkdtempSync(join(folder, 'output-'));
    const written = join(output, 'gpu-check.json');
    const child = spawn('scripts/gpu-check', ['--output', output, 'machine', 'rows'], {
      cwd: root,
      env: { ...process.env, ...CUDA_EMULATOR },
      stdio: 'ignore',
    });
    const closed = new Promise((resolve) => child.once('close', resolve));
    const partsIn = (file: string | number) =>
      sections.parse(JSON.parse(readFileSync(file, 'utf8'))).map(({ part }) => part);
    await until(() => existsSync(written));
    const early = openSync(written, 'r');
    expect(child.exitCode).toBe(null);
    await closed;
    expect([partsIn(early), partsIn(written)]).toEqual([['machine'], ['machine', 'rows']]);
    closeSync(early);
  });

  it('fails where kernels compute something else, and where rows hang on the others', async () => {
    const kernels = join(folder, 'changed.so');
    const changes = [
      {
        file: 'norm.cu',
        from: /batch\.numbers\[j\] \* factor \* weight\.numbers\[j\]/,
        to: 'batch.numbers[j] * (factor * weight.numbers[j])',
      },
      {
        file: 'linear.cu',
        from: /(finish\(p, token, i, treeOf<Sum>\(p, token, i\))\)/,
        to: '$1 * (p.rows < 5 ? 2 : 1))',
      },
      {
        file: 'attention.cu',
        from: /score \*= p\.scale;/,
        to: 'score *= kWidth >= 256 ? 3.0f * p.scale : p.scale;',
      },
    ];
    compileChanged(kernels, changes);
    const { code, found } = await check(['rows', 'invariance', '--most-rows', '10'], {
      SVC_CUDA_KERNELS: kernels,
    });
    expect(code).toBe(1);
    const failed = found().map(({ results }) => results.filter(({ outcome }) => outcome === 'failed'));
    const names = ['row-rmsNorm-40', 'linear-1', 'attention-decode-256', 'attention-prefill-512'];
    for (const name of names) expect(failed[0]).toContainEqual(expect.objectContaining({ name }));
    expect(failed[1]).toContainEqual(expect.objectContaining({ name: 'product [200, 2080]' }));
    // Compiling kernels takes most of it.
  }, 180_000);

  const libraries = {
    driver: NCCL_EMULATOR.SVC_CUDA_DRIVER,
    kernels: NCCL_EMULATOR.SVC_CUDA_KERNELS,
    nccl: NCCL_EMULATOR.SVC_NCCL,
  };
  const shape = { layers: 2, blocks: 4, layerBlockBytes: 4096 };

  it.each(['cuda-ipc', 'shm', 'tcp', 'nccl'] as const)('times blocks that go over %s', async (kind) => {
    const figure = await measureTransfers(kind, shape, libraries);
    expect(figure).toMatchObject({ name: `${kind}: process to process`, unit: 'GB/s' });
    expect(figure.value).toBeGreaterThan(0);
  });

  it('does not time blocks that come otherwise than they were sent', async () => {
    const flips = { SVC_EMULATED_FLIPS: '2' };
    await expect(measureTransfers('cuda-ipc', shape, libraries, flips)).rejects.toThrow('other bytes came');
  });

  it('says why blocks cannot go', async () => {
    const others = { ...libraries, kernels: join(folder, 'nowhere.fatbin') };
    await expect(measureTransfers('cuda-ipc', shape, others)).rejects.toThrow(/link went down: .*nowhere/);
  });

  it('times prefill and decode of a model whose weights are made up', async () => {
    const model = join(folder, 'model');
    mkdirSync(model);
    writeTinyModel(model, { dtype: 'bf16' });
    const figures = [];
    const workload = { context: 20, sequences: [1, 3], steps: 4, warmSteps: 2 };
    for await (const figure of measureModel('tiny', model, workload, { prefill: 9, decode: { 3: 7 } })) {
      figures.push(figure);
    }
    expect(figures.map(({ name, unit, goal }) => [name, unit, goal])).toEqual([
      ['tiny: start', 's', null],
      ['tiny: prefill', 'tokens/s', 9],
      ['tiny: decode of 1', 'tokens/s', null],
      ['tiny: prefill beside decode', 'tokens/s', null],
      ['tiny: decode of 3', 'tokens/s', 7],
    ]);
    expect(figures.every(({ value }) => value !== null && value > 0)).toBe(true);
    // The prompt of the first sequence is in the prefix cache.
    expect(figures[3]?.note).toMatch(/^of 4[0-9] tokens$/);
  });

  it('shows one GPU as several, with an NCCL for each rank', () => {
    vi.stubEnv('SVC_NCCL', NCCL_EMULATOR.SVC_NCCL);
    const { variables, remove } = showSeveralGpus(4)!;
    const args = ['node_modules/vitest/vitest.mjs', 'run', 'test/engine/cuda-ranks.test.ts', '-t', 'gemma2'];
    const { stdout, stderr } = spawnSync(process.execPath, args, {
      cwd: root,
      encoding: 'utf8',
      timeout: 50_000,
      env: { ...process.env, ...variables, SVC_TEST_GPUS: '4', SVC_EMULATED_GPUS: '1' },
    });
    remove();
    vi.unstubAllEnvs();
    expect(stdout, stderr).toMatch(/^1 passed, 0 failed, /m);
  });

  it('takes a library in the place of the driver as it is where there is no compiler, and says where there is none', () => {
    const isThere = inPlaceOfDriver('timed_driver', mkdtempSync(join(folder, 'compiled-')));
    vi.stubEnv('PATH', '/nowhere');
    expect(inPlaceOfDriver('timed_driver', mkdtempSync(join(folder, 'brought-')))).toMatchObject({
      SVC_CUDA_DRIVER: isThere!.SVC_CUDA_DRIVER,
    });
    expect(inPlaceOfDriver('no_such_driver', folder)).toBe(null);
    vi.unstubAllEnvs();
  });

  it('times each kernel of a step', () => {
    const model = join(folder, 'profiled');
    mkdirSync(model);
    writeTinyModel(model, { dtype: 'bf16' });
    const figures = [...profileModel('tiny', model, { context: 20, sequences: [1, 3] })];
    const names = figures.map(({ name }) => name);
    expect(names.filter((name) => name.endsWith(': all'))).toEqual([
      'tiny, prefill of 20: all',
      'tiny, decode of 1: all',
      expect.stringMatching(/^tiny, prefill of 4[0-9]: all$/),
      'tiny, decode of 3: all',
    ]);
    expect(names).toContain('tiny, decode of 3: svcEmbedding 3 1 1');
    expect(figures.every(({ value }) => value !== null && value > 0)).toBe(true);
  });

  it('tells when the kernels of a graph end, of when their blocks do', () => {
    const blocks = (kernel: string, ...times: readonly (readonly number[])[]) =>
      times.map((one) => `${kernel} ${times.length} ${one.join(' ')}`);
    const stepFrom = (at: number) => [
      ...blocks('svcEmbedding', [at, at, at + 1000]),
      ...blocks('svcWide8', [at - 5000, at + 1500, at + 9000], [at + 200, at + 1400, at + 8000]),
      ...blocks('svcRmsNorm', [at + 8500, at + 9600, at + 11000]),
      ...blocks('svcWide8', [at + 8600, at + 11400, at + 14000], [at + 9800, at + 11300, at + 15000]),
    ];
    // The log begins within a launch of two blocks.
    const log = [...stepFrom(0).slice(2), ...stepFrom(20_000), ...stepFrom(40_000)];
    const figures = figuresOf('tiny', log.join('\n'));
    expect(figures.map(({ name, value, note }) => [name, value, note])).toEqual([
      ['tiny: svcWide8 2 after svcEmbedding', 8, '1.0 a step; has begun at -0.8, had waited at 0.4'],
      ['tiny: svcRmsNorm 1 after svcWide8', 2, '1.0 a step; has begun at -0.5, had waited at 0.6'],
      ['tiny: svcWide8 2 after svcRmsNorm', 4, '1.0 a step; has begun at -1.2, had waited at 0.3'],
      ['tiny: svcEmbedding 1 after svcWide8', 6, '0.5 a step; has begun at 5.0, had waited at 5.0'],
    ]);
  });

  it('says where kernels write nothing down', () => {
    const model = join(folder, 'traced');
    mkdirSync(model);
    writeTinyModel(model, { dtype: 'bf16' });
    const untraced = join(folder, 'no-such.fatbin');
    expect(traceOf('tiny', model, { context: 20, sequences: 1, kernels: untraced })).toEqual([
      expect.objectContaining({ outcome: 'missing', note: expect.stringContaining('--traced') }),
    ]);
    const kernels = process.env.SVC_CUDA_KERNELS!;
    expect(traceOf('tiny', model, { context: 20, sequences: 1, kernels })).toEqual([
      expect.objectContaining({ outcome: 'missing', note: expect.stringContaining('write nothing down') }),
    ]);
  });

  it('tells how long the device works and waits in steps as they are served', () => {
    const model = join(folder, 'served');
    mkdirSync(model);
    writeTinyModel(model, { dtype: 'bf16' });
    const figures = timelineOf('tiny', model, 60, 3);
    expect(figures.map(({ name, unit }) => [name, unit])).toEqual([
      ['tiny, decode of 3 as served: a step', 'ms'],
      ['tiny, decode of 3 as served: the GPU works', 'ms'],
      ['tiny, decode of 3 as served: the GPU waits', 'ms'],
      ['tiny, decode of 3 as served: calls of the driver', 'ms'],
      ['tiny, decode of 3 as served: ahead of the GPU', 'ms'],
    ]);
    const [step, works, waits, , ahead] = figures.map(({ value }) => value!);
    expect(figures[0]!.note).toMatch(/\b1\.0 graph\b/);
    expect(works! + waits!).toBeGreaterThan(0.8 * step!);
    expect(works! + waits!).toBeLessThan(1.2 * step!);
    // The emulated GPU takes far longer for a step than the processor does to ask for it.
    expect(waits!).toBeLessThan(works!);
    expect(ahead!).toBeGreaterThan(0);
  });
});
