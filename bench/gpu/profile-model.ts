// How long each kernel of a step takes, as events before and after it say: a library in the place of the driver records them.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { measured, type Result } from './result.ts';
import { inPlaceOfDriver, missingStandIn, runBehind } from './stand-in.ts';

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
 * @throws Error where the library does not compile, or the model is not computed.
 */
export function* profileModel(name: string, modelPath: string, steps: ProfiledSteps): Generator<Result> {
  const folder = mkdtempSync(join(os.tmpdir(), 'svc-gpu-'));
  try {
    const inPlace = inPlaceOfDriver('timed_driver', folder);
    if (inPlace === null) {
      yield missingStandIn(`${name}: kernels`);
      return;
    }
    const log = join(folder, 'launches.jsonl');
    const numbers = [steps.context, ...steps.sequences].map(String);
    const variables = { ...inPlace, SVC_TIMED_LAUNCHES: log };
    const told = runBehind('profile-steps.ts', [modelPath, ...numbers], variables, SECONDS);
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
