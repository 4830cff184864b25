// Decode steps as they are served: how long the GPU works and waits in each, and how far ahead of it the processor is. A library in the place of the driver
// notes when something was appended to a stream, and when the GPU did it.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { median } from '../report.ts';
import { measured, type Result } from './result.ts';
import { inPlaceOfDriver, missingStandIn, runBehind } from './stand-in.ts';

/** A line of timeline_driver.cc. */
const lineSchema = z
  .tuple([z.string(), z.number(), z.number(), z.number(), z.number()])
  .transform(([what, called, returned, begun, done]) => ({ what, called, returned, begun, done }));
type Appended = z.infer<typeof lineSchema>;

/** A pause of the GPU, in microseconds, between two things that it did. */
interface Pause {
  readonly where: string;
  readonly length: number;
}

const SECONDS = 30;
const LONGEST_PAUSES = 3;

/** @throws Error where the library does not compile, or the model is not computed. */
export function timelineOf(name: string, modelPath: string, context: number, sequences: number): Result[] {
  const title = `${name}, decode of ${sequences} as served`;
  const folder = mkdtempSync(join(os.tmpdir(), 'svc-gpu-'));
  try {
    const inPlace = inPlaceOfDriver('timeline_driver', folder);
    if (inPlace === null) return [missingStandIn(title)];
    const log = join(folder, 'timeline.jsonl');
    const variables = { ...inPlace, SVC_TIMELINE: log };
    const args = [modelPath, String(context), String(sequences)];
    const starts = linesOf(runBehind('timeline-steps.ts', args, variables, SECONDS)).map(Number);
    const appended = linesOf(readFileSync(log, 'utf8')).map((line) => lineSchema.parse(JSON.parse(line)));
    return figuresOf(title, starts, appended);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function linesOf(text: string): string[] {
  return text.trim().split('\n');
}

/** Of the second half of the steps that began at `starts`. */
function figuresOf(name: string, starts: readonly number[], all: readonly Appended[]): Result[] {
  const [first, ...others] = starts.slice(Math.floor(starts.length / 2));
  const end = others.at(-1)!;
  const appended = all.filter(({ called }) => called >= first! && called < end);
  const perStep = (sum: number) => sum / others.length / 1000;
  const pauses = pausesIn(appended);
  const leads = appended.map(({ returned, begun }) => begun - returned);
  const ms = (what: string, sum: number, note: string) =>
    measured(`${name}: ${what}`, perStep(sum), 'ms', { note });
  return [
    ms('a step', end - first!, countsOf(appended, others.length)),
    ms('the GPU works', sumOf(appended.map(({ begun, done }) => done - begun)), ''),
    ms('the GPU waits', sumOf(pauses.map(({ length }) => length)), longest(pauses, others.length)),
    ms('calls of the driver', sumOf(appended.map(({ called, returned }) => returned - called)), ''),
    measured(`${name}: ahead of the GPU`, median(leads) / 1000, 'ms', {
      note: `at least ${(Math.min(...leads) / 1000).toFixed(3)} ms`,
    }),
  ];
}

function countsOf(appended: readonly Appended[], steps: number): string {
  const counts = new Map<string, number>();
  for (const { what } of appended) counts.set(what, (counts.get(what) ?? 0) + 1);
  return [...counts].map(([what, count]) => `${(count / steps).toFixed(1)} ${what}`).join(', ');
}

function pausesIn(appended: readonly Appended[]): Pause[] {
  return appended.slice(1).map(({ what, begun }, index) => {
    const before = appended[index]!;
    return { where: `${before.what} and ${what}`, length: Math.max(0, begun - before.done) };
  });
}

/** Between what the GPU waits most, and how many microseconds a step. */
function longest(pauses: readonly Pause[], steps: number): string {
  const kinds = new Map<string, number>();
  for (const { where, length } of pauses) kinds.set(where, (kinds.get(where) ?? 0) + length);
  const sorted = [...kinds].sort(([, a], [, b]) => b - a).slice(0, LONGEST_PAUSES);
  return sorted.map(([where, sum]) => `${(sum / steps).toFixed(0)} us between ${where}`).join(', ');
}

function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}
