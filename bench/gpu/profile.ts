// How long each kernel of a step takes, as events before and after it say: of two layers and the head of two models.

import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { cudaDriver } from '../../src/native/native.ts';
import { ROOT } from './gpu.ts';
import { LLAMA_8B, QWEN3_06B } from './model-shapes.ts';
import { failed, measured, missing, report } from './result.ts';

const LAYERS = 2;
const MODELS = [
  { name: 'Llama-3.1-8B', config: LLAMA_8B, sequences: [1, 64, 256] },
  { name: 'Qwen3-0.6B', config: QWEN3_06B, sequences: [1] },
];
/** Of one of them. */
const SECONDS = 50;

/** A line of timed_driver.cc: kernel, grid, microseconds of each launch of a step. */
const stepSchema = z.array(z.tuple([z.string(), z.string(), z.number()]));
type Launches = z.infer<typeof stepSchema>;

const folder = mkdtempSync(join(os.tmpdir(), 'svc-gpu-'));
try {
  const driver = driverPath();
  const library = join(folder, 'timed.so');
  const { error, status, stderr } = spawnSync(
    'g++',
    ['-std=c++20', '-O2', '-shared', '-fPIC', '-o', library, `${ROOT}/bench/gpu/timed_driver.cc`].concat([
      '-Wl,--no-as-needed',
      driver,
    ]),
    { encoding: 'utf8' },
  );
  if (error !== undefined) report(missing('profile', error.message));
  else if (status !== 0) report(failed('profile', stderr));
  else for (const model of MODELS) profile(model, driver, library);
} finally {
  rmSync(folder, { recursive: true });
}

/** Where the loader finds it: a library is linked by its path. */
function driverPath(): string {
  const name = cudaDriver();
  if (name.includes('/')) return name;
  const { stdout } = spawnSync('ldconfig', ['-p'], { encoding: 'utf8' });
  return (
    stdout
      .split('\n')
      .find((line) => line.trim().startsWith(name))
      ?.split(' => ')[1]
      ?.trim() ?? name
  );
}

function profile(
  { name, config, sequences }: (typeof MODELS)[number],
  driver: string,
  library: string,
): void {
  writeFileSync(join(folder, 'config.json'), JSON.stringify({ ...config, num_hidden_layers: LAYERS }));
  const log = join(folder, `${name}.jsonl`);
  const args = ['--import', 'tsx', `${ROOT}/bench/gpu/profile-steps.ts`, folder, ...sequences.map(String)];
  const { error, status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: ROOT,
    encoding: 'utf8',
    timeout: 1000 * SECONDS,
    env: { ...process.env, SVC_CUDA_DRIVER: library, SVC_TIMED_DRIVER: driver, SVC_TIMED_LAUNCHES: log },
  });
  if (error !== undefined || status !== 0) {
    report(failed(name, error?.message ?? `exited ${status}: ${stderr.slice(-1500)}`));
    return;
  }
  const names = stdout.trim().split('\n');
  const lines = readFileSync(log, 'utf8').trim().split('\n');
  // The same step again is as long.
  const steps = new Map(
    lines.map((line, at) => [`${name}, ${names[at]}`, stepSchema.parse(JSON.parse(line))]),
  );
  for (const [step, launches] of steps) tell(step, launches);
}

/** Launches of one kernel over one grid are one figure. */
function tell(step: string, launches: Launches): void {
  const kinds = new Map<string, number[]>();
  for (const [kernel, grid, microseconds] of launches) {
    const kind = `${kernel} ${grid}`;
    kinds.set(kind, [...(kinds.get(kind) ?? []), microseconds]);
  }
  for (const [kind, times] of kinds) {
    const mean = times.reduce((sum, time) => sum + time, 0) / times.length;
    report(measured(`${step}: ${kind}`, mean, 'us', { note: `${times.length} times` }));
  }
  const whole = launches.reduce((sum, [, , microseconds]) => sum + microseconds, 0);
  report(measured(`${step}: all`, whole, 'us', { note: `${launches.length} launches` }));
}
