// When the kernels of decode steps run, in the graphs in which they are served: what a kernel alone takes says little of it, since each begins while the one
// before it runs. Kernels that write down when their blocks begin, have waited and end are compiled beside the others.

import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { median } from '../report.ts';
import { ROOT } from './gpu.ts';
import { measured, missing, type Result } from './result.ts';
import { inPlaceOfDriver, missingStandIn, runBehind } from './stand-in.ts';

/** `node scripts/build-cuda.mjs sm_90a <this> --traced` */
export const TRACED_KERNELS = 'native/build/cuda-kernels-traced.fatbin';

const SECONDS = 30;

/** A line of trace_driver.cc; of a clock in nanoseconds. */
const lineSchema = z
  .tuple([z.string(), z.coerce.number(), z.coerce.number(), z.coerce.number(), z.coerce.number()])
  .transform(([kernel, blocks, begun, waited, ended]) => ({ kernel, blocks, begun, waited, ended }));
type BlockTimes = z.infer<typeof lineSchema>;

/** When the last block of a launch had begun, the first one had waited, and the last one ended. */
interface TracedLaunch {
  readonly kernel: string;
  readonly blocks: number;
  readonly begun: number;
  readonly waited: number;
  readonly ended: number;
}

/** The first kernel of a step. */
const FIRST = 'svcEmbedding';

/** Tokens before each sequence, how many sequences, and the file of kernels. */
interface TracedSteps {
  readonly context: number;
  readonly sequences: number;
  readonly kernels?: string;
}

/** @throws Error where the library does not compile, or the model is not computed. */
export function traceOf(
  name: string,
  modelPath: string,
  { context, sequences, kernels = join(ROOT, TRACED_KERNELS) }: TracedSteps,
): Result[] {
  const title = `${name}, decode of ${sequences} in graphs`;
  if (!existsSync(kernels)) {
    return [missing(title, `run \`node scripts/build-cuda.mjs sm_90a ${TRACED_KERNELS} --traced\``)];
  }
  const folder = mkdtempSync(join(os.tmpdir(), 'svc-gpu-'));
  try {
    const inPlace = inPlaceOfDriver('trace_driver', folder);
    if (inPlace === null) return [missingStandIn(title)];
    const log = join(folder, 'blocks');
    const variables = { ...inPlace, SVC_CUDA_KERNELS: kernels, SVC_TRACE: log };
    runBehind('timeline-steps.ts', [modelPath, String(context), String(sequences)], variables, SECONDS);
    const written = readFileSync(log, 'utf8');
    if (written === '') return [missing(title, `the kernels of ${kernels} write nothing down`)];
    return figuresOf(title, written);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** How long after the kernel before it each one has ended, medians of all that the log has of them. */
export function figuresOf(title: string, log: string): Result[] {
  const blocks = log
    .trim()
    .split('\n')
    .map((line) => lineSchema.parse(line.split(' ')));
  const launches = launchesOf(blocks);
  const kinds = new Map<string, { took: number; waited: number; begun: number }[]>();
  for (const [index, { kernel, blocks, begun, waited, ended }] of launches.slice(1).entries()) {
    const before = launches[index]!;
    const kind = `${kernel} ${blocks} after ${before.kernel}`;
    const all = kinds.get(kind) ?? [];
    kinds.set(kind, all);
    all.push({ took: ended - before.ended, waited: waited - before.ended, begun: begun - before.ended });
  }
  const steps = launches.filter(({ kernel }) => kernel === FIRST).length;
  const us = (values: readonly number[]) => median(values) / 1000;
  return [...kinds].map(([kind, all]) => {
    const begun = us(all.map((one) => one.begun)).toFixed(1);
    const waited = us(all.map((one) => one.waited)).toFixed(1);
    const note = `${(all.length / steps).toFixed(1)} a step; has begun at ${begun}, had waited at ${waited}`;
    return measured(`${title}: ${kind}`, us(all.map(({ took }) => took)), 'us', { note });
  });
}

/** From the first step on that is there from its beginning: the log has the latest blocks, and of the launch before them only some. */
function wholeSteps(blocks: readonly BlockTimes[]): readonly BlockTimes[] {
  const sorted = blocks.toSorted((a, b) => a.ended - b.ended);
  const begin = sorted.findIndex(
    ({ kernel }, at) => at > 0 && kernel === FIRST && sorted[at - 1]!.kernel !== FIRST,
  );
  return begin < 0 ? [] : sorted.slice(begin);
}

/** In the order of their ends. Launches of one kernel come one after the other, so their blocks do. */
function launchesOf(blocks: readonly BlockTimes[]): TracedLaunch[] {
  const open = new Map<string, BlockTimes[]>();
  const launches: TracedLaunch[] = [];
  for (const block of wholeSteps(blocks)) {
    const kind = `${block.kernel} ${block.blocks}`;
    const all = open.get(kind) ?? [];
    open.set(kind, all);
    all.push(block);
    if (all.length < block.blocks) continue;
    open.delete(kind);
    launches.push({
      kernel: block.kernel,
      blocks: block.blocks,
      begun: Math.max(...all.map(({ begun }) => begun)),
      waited: Math.min(...all.map(({ waited }) => waited)),
      ended: block.ended,
    });
  }
  return launches;
}
