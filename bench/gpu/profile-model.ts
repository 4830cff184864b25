// How long each kernel of a step takes, as events before and after it say: a library in the place of the driver records them.

import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { cudaDriver } from '../../src/native/native.ts';
import { ROOT } from './gpu.ts';
import { measured, type Result } from './result.ts';

/** Tokens of each prompt, and numbers of sequences that are computed one after the other. */
export interface ProfiledSteps {
  readonly context: number;
  readonly sequences: readonly number[];
}

/** Of a model. */
const SECONDS = 50;

/** A line of timed_driver.cc: kernel, grid, microseconds of each launch of a step. */
const stepSchema = z.array(z.tuple([z.string(), z.string(), z.number()]));
type Launches = z.infer<typeof stepSchema>;

/**
 * Steps of the model of a folder with a config.json, launched op by op.
 * @throws Error where g++ is not there or refuses, or the model is not computed.
 */
export function* profileModel(name: string, modelPath: string, steps: ProfiledSteps): Generator<Result> {
  const folder = mkdtempSync(join(os.tmpdir(), 'svc-gpu-'));
  try {
    const driver = driverPath();
    const library = join(folder, 'timed.so');
    const log = join(folder, 'launches.jsonl');
    const flags = ['-std=c++20', '-O2', '-shared', '-fPIC', '-Wl,--no-as-needed'];
    run('g++', [...flags, '-o', library, `${ROOT}/bench/gpu/timed_driver.cc`, driver]);
    const numbers = [steps.context, ...steps.sequences].map(String);
    const told = run(
      process.execPath,
      ['--import', 'tsx', `${ROOT}/bench/gpu/profile-steps.ts`, modelPath, ...numbers],
      { SVC_CUDA_DRIVER: library, SVC_TIMED_DRIVER: driver, SVC_TIMED_LAUNCHES: log },
    );
    const names = told.trim().split('\n');
    // Before them are the largest steps, which show how much memory is left.
    const lines = readFileSync(log, 'utf8').trim().split('\n').slice(-names.length);
    // The same step again is as long.
    const last = new Map(lines.map((line, at) => [`${name}, ${names[at]}`, line]));
    for (const [step, line] of last) yield* figuresOf(step, stepSchema.parse(JSON.parse(line)));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** @returns what it wrote. */
function run(command: string, args: readonly string[], variables: NodeJS.ProcessEnv = {}): string {
  const { error, status, stdout, stderr } = spawnSync(command, args, {
    cwd: ROOT,
    encoding: 'utf8',
    timeout: 1000 * SECONDS,
    env: { ...process.env, ...variables },
  });
  if (error !== undefined) throw error;
  if (status !== 0) throw new Error(`${command} exited ${status}: ${stderr.trim().slice(-1500)}`);
  return stdout;
}

/** Where the loader finds it: a library is linked by its path. */
function driverPath(): string {
  const name = cudaDriver();
  if (name.includes('/')) return name;
  const { stdout } = spawnSync('ldconfig', ['-p'], { encoding: 'utf8' });
  const line = stdout.split('\n').find((one) => one.trim().startsWith(name));
  return line?.split(' => ')[1]?.trim() ?? name;
}

/** Launches of one kernel over one grid are one figure. */
function* figuresOf(step: string, launches: Launches): Generator<Result> {
  const kinds = new Map<string, number[]>();
  for (const [kernel, grid, microseconds] of launches) {
    const kind = `${kernel} ${grid}`;
    kinds.set(kind, [...(kinds.get(kind) ?? []), microseconds]);
  }
  for (const [kind, times] of kinds) {
    const mean = times.reduce((sum, time) => sum + time, 0) / times.length;
    yield measured(`${step}: ${kind}`, mean, 'us', { note: `${times.length} times` });
  }
  const whole = launches.reduce((sum, [, , microseconds]) => sum + microseconds, 0);
  yield measured(`${step}: all`, whole, 'us', { note: `${launches.length} launches` });
}
