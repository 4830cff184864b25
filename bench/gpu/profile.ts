// How long each kernel of a step takes, as Nsight Compute's program reads it: of two layers and the head of Llama-3.1-8B.

import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { ROOT } from './gpu.ts';
import { LLAMA_8B } from './model-shapes.ts';
import { failed, measured, missing, report } from './result.ts';

const LAYERS = 2;
/** The first kernel of a step. */
const FIRST = 'svcEmbedding';
const TIME = 'gpu__time_duration.sum';

interface Launch {
  readonly kernel: string;
  readonly grid: string;
  readonly microseconds: number;
}

const folder = mkdtempSync(join(os.tmpdir(), 'svc-gpu-'));
try {
  if (spawnSync('ncu', ['--version']).status !== 0) report(missing('profile', 'ncu is not in PATH'));
  else profile();
} finally {
  rmSync(folder, { recursive: true });
}

function profile(): void {
  writeFileSync(join(folder, 'config.json'), JSON.stringify({ ...LLAMA_8B, num_hidden_layers: LAYERS }));
  const log = join(folder, 'launches.csv');
  // The clocks stay as they are.
  const watch = ['--csv', '--page', 'raw', '--metrics', TIME, '--clock-control', 'none', '--log-file', log];
  const { error, status, stdout, stderr } = spawnSync(
    'ncu',
    [...watch, process.execPath, '--import', 'tsx', `${ROOT}/bench/gpu/profile-steps.ts`, folder],
    { cwd: ROOT, encoding: 'utf8', timeout: 100_000 },
  );
  if (error !== undefined || status !== 0) {
    report(failed('profile', error?.message ?? `exited ${status}: ${`${stdout}${stderr}`.slice(-1500)}`));
    return;
  }
  const names = stdout.split('\n').filter((line) => /^(prefill|decode) of /.test(line));
  // The same step again is as long.
  const steps = new Map<string, Launch[]>();
  stepsIn(launchesIn(readFileSync(log, 'utf8'))).forEach((launches, at) => {
    steps.set(names[at] ?? 'more', launches);
  });
  for (const [name, launches] of steps) tell(name, launches);
}

function launchesIn(csv: string): Launch[] {
  const rows = csv
    .split('\n')
    .filter((line) => line.startsWith('"'))
    .map(fieldsOf);
  const [header, units] = [rows[0] ?? [], rows[1] ?? []];
  const [kernel, grid, time] = ['Kernel Name', 'Grid Size', TIME].map((name) => header.indexOf(name)) as [
    number,
    number,
    number,
  ];
  const perMicrosecond = /^n/.test(units[time] ?? '') ? 1e-3 : /^m/.test(units[time] ?? '') ? 1e3 : 1;
  return rows.slice(2).map((fields) => ({
    kernel: (fields[kernel] ?? '').replace(/\(.*/, ''),
    grid: fields[grid] ?? '',
    microseconds: Number((fields[time] ?? '').replaceAll(',', '')) * perMicrosecond,
  }));
}

function fieldsOf(line: string): string[] {
  return [...line.matchAll(/"((?:[^"]|"")*)"/g)].map(([, field]) => field ?? '');
}

function stepsIn(launches: readonly Launch[]): Launch[][] {
  const steps: Launch[][] = [];
  for (const launch of launches) {
    if (launch.kernel.startsWith(FIRST)) steps.push([]);
    steps.at(-1)?.push(launch);
  }
  return steps;
}

/** Launches of one kernel over one grid are one figure. */
function tell(step: string, launches: readonly Launch[]): void {
  const kinds = new Map<string, number[]>();
  for (const { kernel, grid, microseconds } of launches) {
    const kind = `${kernel} ${grid}`;
    kinds.set(kind, [...(kinds.get(kind) ?? []), microseconds]);
  }
  for (const [kind, times] of kinds) {
    const mean = times.reduce((sum, time) => sum + time, 0) / times.length;
    report(measured(`${step}: ${kind}`, mean, 'us', { note: `${times.length} times` }));
  }
  const whole = launches.reduce((before, { microseconds }) => before + microseconds, 0);
  report(measured(`${step}: all`, whole, 'us', { note: `${launches.length} launches` }));
}
