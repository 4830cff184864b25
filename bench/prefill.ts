// Where the time of one prefill step goes: each op of a real step by itself, products by their shapes, beside what the matrix
// unit would need for its multiply-adds.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import type { EngineCore } from '../src/engine/engine-core.ts';
import { NativeOps } from '../src/ops/native/native-ops.ts';
import type { StepInputs, Tensor } from '../src/ops/ops.ts';
import { measurePrefill, PREFILL_TOKENS, startCore } from './engine.ts';
import { type MachineLimits, measureMachine } from './machine.ts';
import { type RandomModelShape, writeRandomModel } from './random-model.ts';
import { type Figure, median, type Section } from './report.ts';

const SHAPES: readonly RandomModelShape[] = ['qwen2.5-0.5b', 'llama-3.2-1b'];
const STEPS = 12;

type Format = 'bf16' | 'int8';

/** One call of an op. */
interface Work {
  readonly name: string;
  /** Multiplications and additions of the matrix unit, 0 where it has none to do. */
  readonly operations: number;
  readonly format: Format;
}

/** All calls of one name in a step. */
interface Share extends Work {
  readonly seconds: number;
}

export async function prefillSection(): Promise<Section> {
  const limits = measureMachine();
  const figures: Figure[] = [];
  for (const shape of SHAPES) {
    const folder = mkdtempSync(join(os.tmpdir(), 'svc-bench-'));
    try {
      writeRandomModel(folder, shape);
      for (const format of ['bf16', 'int8'] as const) {
        figures.push(...describe(`${shape}, ${format}`, await measure(folder, format), limits));
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
  }
  return {
    title: `Ops of a prefill of ${PREFILL_TOKENS} tokens`,
    figures,
    notes: [
      `Of all layers together, the step of the median time of ${STEPS}; behind the name the share of the time of all ops. Each op is ` +
        'waited for before the next one is recorded. Products in int8 quantise their inputs. Limit: the matrix unit doing ' +
        'nothing but the multiply-adds, in attention those of the pairs of tokens that see each other.',
    ],
  };
}

async function measure(modelPath: string, format: Format): Promise<Share[]> {
  const core = await startCore({ modelPath, quantization: format === 'bf16' ? null : format });
  try {
    measurePrefill(core);
    const steps = Array.from({ length: STEPS }, () => sharesOfStep(core, format));
    const middle = median(steps.map(secondsOf));
    return steps.find((shares) => secondsOf(shares) >= middle)!;
  } finally {
    core.close();
  }
}

function sharesOfStep(core: EngineCore, format: Format): Share[] {
  const shares = new Map<string, Share>();
  const unwatch = watchOps(worksIn(format), (work, seconds) => {
    const before = shares.get(work.name);
    shares.set(work.name, {
      ...work,
      seconds: seconds + (before?.seconds ?? 0),
      operations: work.operations + (before?.operations ?? 0),
    });
  });
  try {
    measurePrefill(core);
  } finally {
    unwatch();
  }
  return [...shares.values()].toSorted((a, b) => b.seconds - a.seconds);
}

type Works = Readonly<Record<string, (...args: never[]) => Work>>;

/** What a call of each op of these models does. */
function worksIn(format: Format): Works {
  const other = (name: string) => (): Work => ({ name, operations: 0, format: 'bf16' });
  const product = (name: string, { rows }: Tensor, n: number, k: number): Work => ({
    name: `${name} [${n}, ${k}]${rows === PREFILL_TOKENS ? '' : ` of ${rows}`}`,
    operations: 2 * n * k * rows,
    format,
  });
  type Weight = Parameters<NativeOps['linear']>[1];
  return {
    linear: (x: Tensor, { n, k }: Weight) => product('product', x, n, k),
    addLinear: (_residual: Tensor, x: Tensor, { n, k }: Weight) => product('product, added', x, n, k),
    gateUp: (x: Tensor, { n, k }: Weight) => product('gate and up', x, 2 * n, k),
    attention: (q: Tensor, _step: StepInputs) => ({
      name: 'attention',
      // Each token sees itself and those before it; scores and values are two products.
      operations: 2 * q.rows * (q.rows + 1) * q.cols,
      format: 'bf16',
    }),
    ...Object.fromEntries(
      ['embedding', 'rmsNorm', 'prepareHeads', 'rope', 'storeKv', 'gatherRows', 'editLogits', 'sample'].map(
        (name) => [name, other(name)],
      ),
    ),
  };
}

/** From now on each of these ops is waited for and told of, until the returned function is called. */
function watchOps(works: Works, onOp: (work: Work, seconds: number) => void): () => void {
  const originals = Object.keys(works).map((name) => [name, Reflect.get(NativeOps.prototype, name)] as const);
  for (const [name, original] of originals) {
    Reflect.set(NativeOps.prototype, name, function (this: NativeOps, ...args: never[]): unknown {
      const before = this.busySeconds;
      const result: unknown = Reflect.apply(original, this, args);
      this.mark().read();
      onOp(works[name]!(...args), this.busySeconds - before);
      return result;
    });
  }
  return () => {
    for (const [name, original] of originals) Reflect.set(NativeOps.prototype, name, original);
  };
}

function secondsOf(shares: readonly Share[]): number {
  return shares.reduce((sum, { seconds }) => sum + seconds, 0);
}

function describe(
  model: string,
  shares: readonly Share[],
  { matrixFlops, int8Ops }: MachineLimits,
): Figure[] {
  const total = secondsOf(shares);
  const all: Figure = { name: `${model}: all ops`, value: 1000 * total, unit: 'ms', limit: null, goal: null };
  return [
    all,
    ...shares.map(({ name, seconds, operations, format }): Figure => {
      const label = `${model}: ${name} (${((100 * seconds) / total).toFixed(1)} %)`;
      if (operations === 0) return { ...all, name: label, value: 1000 * seconds };
      const limit = (format === 'int8' ? int8Ops : matrixFlops) / 1e9;
      const unit = format === 'int8' ? 'GOP/s' : 'GFLOP/s';
      return { name: label, value: operations / seconds / 1e9, unit, limit, goal: '>= 75 %' };
    }),
  ];
}
