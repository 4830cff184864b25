// Speed of layers that keep a state of each sequence, by themselves: what a token of a prompt takes, which is computed after the one
// before it; and decode of many sequences against memory reads of their states.

import type { Ops, StepInputs, Tensor } from '../../src/ops/ops.ts';
import { headStatesWidth } from '../../src/ops/states.ts';
import { Random } from '../../test/helpers/random.ts';
import { LimitProbe } from '../beside.ts';
import { openOps } from '../machine.ts';
import { type Figure, figureOf, median, type Section } from '../report.ts';
import { timeOps } from './time-ops.ts';

/** Heads of one layer. */
interface Heads {
  readonly keyHeads: number;
  readonly keyDim: number;
  readonly heads: number;
  readonly valueDim: number;
}

const DELTA: Heads = { keyHeads: 16, keyDim: 128, heads: 16, valueDim: 128 };
const SCAN: Heads = { keyHeads: 1, keyDim: 128, heads: 64, valueDim: 64 };
const CHANNELS = 6144;
const TAPS = 4;
const PROMPT = 1024;
const DECODE_SEQUENCES = 64;
/** States of the layers that take turns come to more than any cache holds. */
const DECODE_LAYERS = 4;
const RUNS = 5;

/** Makes the rows of a step, for an op over them. */
type Prepare = (rows: number) => (step: StepInputs, layer: number) => Tensor;

export function statesSection(): Section {
  const probe = new LimitProbe();
  const ops = openOps();
  try {
    const [delta, scan, convolution] = [gatedDelta(ops), selectiveScan(ops), convolve(ops)];
    const figures = [
      prompt(ops, 'gated delta rule, 16 heads of 128 by 128', headStatesWidth(DELTA), delta),
      prompt(ops, 'selective scan, 64 heads of 128 by 64', headStatesWidth(SCAN), scan),
      prompt(ops, `convolution over 4 tokens of ${CHANNELS} channels`, (TAPS - 1) * CHANNELS, convolution),
      decode(ops, 'gated delta rule', headStatesWidth(DELTA), delta, probe),
      decode(ops, 'selective scan', headStatesWidth(SCAN), scan, probe),
    ];
    return { title: 'Layers that keep states, one layer each', figures };
  } finally {
    ops.close();
    probe.close();
  }
}

function prompt(ops: Ops, name: string, width: number, prepare: Prepare): Figure {
  const seconds = timed(ops, { numSequences: 1, rows: PROMPT, layers: 1, width }, prepare);
  return figureOf(`${name}: a token of a prompt of ${PROMPT}`, (seconds / PROMPT) * 1e6, 'us');
}

/** Each state is read, and written back. */
function decode(ops: Ops, name: string, width: number, prepare: Prepare, probe: LimitProbe): Figure {
  const shape = { numSequences: DECODE_SEQUENCES, rows: DECODE_SEQUENCES, layers: DECODE_LAYERS, width };
  const bytes = DECODE_SEQUENCES * width * 4;
  const held = probe.hold(
    'bf16',
    () => bytes / timed(ops, shape, prepare) / 1e9,
    (limits) => limits.readBytesPerSecond / 1e9,
  );
  return {
    name: `${name}: one token each of ${DECODE_SEQUENCES} sequences, states read`,
    ...held,
    unit: 'GB/s',
    goal: null,
  };
}

interface StepShape {
  readonly numSequences: number;
  readonly rows: number;
  readonly layers: number;
  readonly width: number;
}

/** Median seconds of an op in layers that take turns, over sequences that go on. */
function timed(ops: Ops, { numSequences, rows, layers, width }: StepShape, prepare: Prepare): number {
  const cache = ops.makeKvCache({
    ...{ layers: 1, blocks: 1, blockSize: 16, kvHeads: 1, headDim: 2, dtype: 'f32' },
    states: { layers, slots: numSequences, width },
  });
  const slots = Int32Array.from({ length: numSequences }, (_, slot) => slot);
  const queries = rows / numSequences;
  const step = ops.beginStep(cache, {
    positions: new Int32Array(rows),
    slotMapping: new Int32Array(rows).fill(-1),
    batch: {
      numSequences,
      queryStarts: Int32Array.from({ length: numSequences + 1 }, (_, i) => i * queries),
      contextLengths: new Int32Array(numSequences).fill(queries),
      blockTables: new Int32Array(numSequences * Math.ceil(queries / 16)),
      maxBlocks: Math.ceil(queries / 16),
    },
    states: { sources: slots, slots, saves: new Int32Array(0) },
  });
  const seconds = ops.scope(() => {
    const apply = prepare(rows);
    return Array.from({ length: RUNS }, (_, run) => timeOps(ops, () => apply(step, run % layers)));
  });
  cache.free();
  return median(seconds.slice(1));
}

function gatedDelta(ops: Ops): Prepare {
  const { keyHeads, keyDim, heads, valueDim } = DELTA;
  const [rates, rateBias] = [
    ops.makeVector(new Float32Array(heads).fill(-1)),
    ops.makeVector(new Float32Array(heads)),
  ];
  return (rows) => {
    const numbers = maker(ops, rows);
    const [q, k] = [numbers(keyHeads * keyDim), numbers(keyHeads * keyDim)];
    const tokens = {
      q,
      k,
      v: numbers(heads * valueDim),
      forgetting: numbers(heads),
      writing: numbers(heads),
    };
    const rule = { ...DELTA, first: 0, rates, rateBias, isTiled: false };
    return (step, layer) => ops.gatedDelta(tokens, step, { ...rule, layer });
  };
}

function selectiveScan(ops: Ops): Prepare {
  const { keyHeads: groups, keyDim: stateDim, heads, valueDim: headDim } = SCAN;
  const rates = ops.makeVector(new Float32Array(heads).fill(-1));
  const zeros = ops.makeVector(new Float32Array(heads));
  const scan = { first: 0, groups, stateDim, heads, headDim, rates, stepBias: zeros, skips: zeros };
  return (rows) => {
    const numbers = maker(ops, rows);
    const [b, c] = [numbers(groups * stateDim), numbers(groups * stateDim)];
    const tokens = { x: numbers(heads * headDim), b, c, steps: numbers(heads) };
    return (step, layer) => ops.selectiveScan(tokens, step, { ...scan, layer });
  };
}

function convolve(ops: Ops): Prepare {
  const weight = ops.makeVector(new Random(1).floats(TAPS * CHANNELS));
  return (rows) => {
    const x = maker(ops, rows)(CHANNELS);
    return (step, layer) => ops.convolve(x, step, { layer, first: 0, weight, activation: 'silu' });
  };
}

/** Made-up rows of a width, small enough that no state grows without end. */
function maker(ops: Ops, rows: number): (cols: number) => Tensor {
  const random = new Random(2);
  return (cols) =>
    ops.tensor(
      random.floats(rows * cols).map((value) => value / Math.sqrt(cols)),
      rows,
      cols,
      'f32',
    );
}
