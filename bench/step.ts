// What JavaScript costs the engine thread in a step: the kernels have nothing to do while it is measured. A tiny model with
// as many layers as the 0.5B shape, for the ops of a step are recorded layer by layer.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { EngineCore } from '../src/engine/engine-core.ts';
import { saltKeys } from '../src/kv-cache/prefix-hash.ts';
import { NativeOps } from '../src/ops/native/native-ops.ts';
import { writeTinyModel } from '../test/fixtures/tiny-model.ts';
import { ENGINE_DEFAULTS } from '../test/helpers/engine-defaults.ts';
import { newRequest } from '../test/helpers/new-request.ts';
import { type Figure, median, type Section } from './report.ts';

const NUM_LAYERS = 24;
const CONTEXT = 1024;
const NUM_SEQUENCES = [1, 16, 64];
const WARM_STEPS = 50;
const STEPS = 150;
/** Longer than any op of the tiny model. */
const PAUSE_MS = 10;

/** Milliseconds of each call, by the part of the step. */
type Times = Readonly<Record<'schedule' | 'forward' | 'beginStep' | 'read' | 'update' | 'sample', number[]>>;

export async function stepSection(): Promise<Section> {
  const folder = mkdtempSync(join(os.tmpdir(), 'svc-bench-'));
  const config = {
    num_hidden_layers: NUM_LAYERS,
    num_key_value_heads: 1,
    max_position_embeddings: 2 * CONTEXT,
  };
  try {
    writeTinyModel(folder, { dtype: 'bf16', config });
    const figures: Figure[] = [];
    for (const count of NUM_SEQUENCES) figures.push(...describe(count, await measure(folder, count)));
    return {
      title: 'JavaScript of a decode step',
      figures,
      notes: [
        `Medians of ${STEPS} steps: ${NUM_LAYERS} layers, ${CONTEXT} tokens of context, greedy. Forward records the ops, ` +
          'with beginStep, which is listed beside it; read, without waiting for the kernels.',
      ],
    };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function measure(modelPath: string, numSequences: number): Promise<Times> {
  const core = await EngineCore.start({
    ...ENGINE_DEFAULTS,
    modelPath,
    maxNumSeqs: numSequences,
    kvCacheMemoryBytes: 2 ** 28,
  });
  try {
    for (let id = 0; id < numSequences; id += 1) {
      const promptTokenIds = Array.from({ length: CONTEXT }, (_, at) => (7 * at + id) % 100);
      // A salt of its own: the prefix cache saves no request anything.
      const extraKeys = saltKeys(`${id}`);
      core.scheduler.add(newRequest({ id, promptTokenIds, extraKeys, stop: { maxTokens: CONTEXT } }));
    }
    while (core.stats.running < numSequences || core.stats.promptTokens < numSequences * CONTEXT) core.step();
    const times: Times = { schedule: [], forward: [], beginStep: [], read: [], update: [], sample: [] };
    const unwatch = watch(core, times);
    for (let step = 0; step < WARM_STEPS + STEPS; step += 1) {
      if (step === WARM_STEPS) for (const all of Object.values(times)) all.length = 0;
      untilIdle(core);
      core.step();
    }
    unwatch();
    return times;
  } finally {
    core.close();
  }
}

/** Returns when the kernels have computed all that was launched. */
function untilIdle({ executor }: EngineCore): void {
  let before: number | null;
  do {
    before = executor.busySeconds;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PAUSE_MS);
  } while (executor.busySeconds !== before);
}

/** From now on the parts of a step note their times. */
function watch({ scheduler, executor }: EngineCore, times: Times): () => void {
  scheduler.schedule = timed(times.schedule, scheduler.schedule.bind(scheduler));
  scheduler.update = timed(times.update, scheduler.update.bind(scheduler));
  executor.forward = timed(times.forward, executor.forward.bind(executor));
  executor.read = timed(times.read, executor.read.bind(executor));
  executor.sample = timed(times.sample, executor.sample.bind(executor));
  const { beginStep } = NativeOps.prototype;
  NativeOps.prototype.beginStep = function (...args) {
    return timed(times.beginStep, beginStep.bind(this))(...args);
  };
  return () => {
    NativeOps.prototype.beginStep = beginStep;
  };
}

function timed<A extends readonly unknown[], R>(times: number[], call: (...args: A) => R): (...args: A) => R {
  return (...args) => {
    const began = performance.now();
    const result = call(...args);
    times.push(performance.now() - began);
    return result;
  };
}

function describe(numSequences: number, times: Times): Figure[] {
  const name = `${numSequences} sequence${numSequences === 1 ? '' : 's'}`;
  const parts = Object.entries(times).map(([part, all]) => ({ part, us: 1000 * median(all) }));
  const step = parts.reduce((sum, { part, us }) => sum + (part === 'beginStep' ? 0 : us), 0);
  const figure = (what: string, value: number): Figure => ({
    name: `${name}: ${what}`,
    value,
    unit: 'us',
    limit: null,
    goal: null,
  });
  return [
    ...parts.map(({ part, us }) => figure(part, us)),
    figure('all of a step', step),
    figure('a token', step / numSequences),
  ];
}
