// Speed of single ops, beside what an H100 was seen to reach (reads of memory, products of bf16).

import type { Ops, StepInputs } from '../../src/ops/ops.ts';
import { headStatesWidth } from '../../src/ops/states.ts';
import { plainPart } from '../../src/ops/weights.ts';
import { Random } from '../../test/helpers/random.ts';
import { WeightFile } from '../kernels/weight-file.ts';
import { openGpu } from './gpu.ts';
import { measured, report } from './result.ts';

const BYTES_PER_SECOND = 3.0e12;
const FLOPS = 798e12;
/** Weights that take turns, so that none is still in a cache. */
const ROTATED_BYTES = 256e6;
const WARM_RUNS = 3;
const SECONDS = 0.25;

interface Weight {
  readonly name: string;
  readonly n: number;
  readonly k: number;
  readonly rows: readonly number[];
  readonly isRowParallel?: boolean;
}

/** Of a layer of Llama-3.1-8B, and its head. Gate and up are one product of 2 n. */
const WEIGHTS: readonly Weight[] = [
  { name: 'square', n: 4096, k: 4096, rows: [4096] },
  { name: 'qkv', n: 6144, k: 4096, rows: [1, 8, 32, 64, 128, 256, 2048] },
  { name: 'o', n: 4096, k: 4096, rows: [1, 8, 32, 64, 128, 256, 2048], isRowParallel: true },
  { name: 'gate, up', n: 14336, k: 4096, rows: [1, 8, 32, 64, 128, 256, 2048] },
  { name: 'down', n: 4096, k: 14336, rows: [1, 8, 32, 64, 128, 256, 2048], isRowParallel: true },
  { name: 'head', n: 128256, k: 4096, rows: [1, 64, 256] },
];
const SQUARE_GOAL = 600;

/** As in Llama-3.1-8B, and in the layers of Gemma 4 31B that see everything. */
const ATTENTION = [
  { what: 'attention', heads: 32, kvHeads: 8, headDim: 128 },
  { what: 'attention of heads of 512', heads: 32, kvHeads: 4, headDim: 512 },
] as const;

/** Of a layer that keeps states, as in Qwen3-Next: its delta rule and its convolution. */
const DELTA = { keyHeads: 16, keyDim: 128, heads: 32, valueDim: 128, isTiled: false };
const [KEY_COLS, VALUE_COLS, TAPS] = [16 * 128, 32 * 128, 4];
const CHANNELS = 2 * KEY_COLS + VALUE_COLS;
const KEPT_INPUTS = (TAPS - 1) * CHANNELS;
/** As in Granite-4.0-H-Small. */
const SCAN = { groups: 1, stateDim: 128, heads: 128, headDim: 64 };
const SCAN_STATE = { heads: SCAN.heads, keyDim: SCAN.stateDim, valueDim: SCAN.headDim };
/** Layers that take turns. */
const STATE_LAYERS = 4;

calls();
for (const weight of WEIGHTS) products(weight);
for (const heads of ATTENTION) attention(heads);
states();

/** Each kind of op on a GPU of its own, so that its memory is free afterwards. */
function withGpu(body: (ops: Ops) => void): void {
  const ops = openGpu();
  try {
    body(ops);
  } finally {
    ops.close();
  }
}

/** Seconds of one call of `body`, of many between two waits. */
function secondsOf(ops: Ops, body: (run: number) => void): number {
  let run = 0;
  const runs = (count: number): number => {
    const startedAt = performance.now();
    for (let i = 0; i < count; i += 1) ops.scope(() => body(run++));
    ops.mark().read();
    return (performance.now() - startedAt) / 1000;
  };
  runs(WARM_RUNS);
  const count = Math.max(3, Math.min(5000, Math.ceil(SECONDS / Math.max(1e-6, runs(1)))));
  return runs(count) / count;
}

/** E3: what a launch costs from JavaScript, and how soon JavaScript hears that it has run. */
function calls(): void {
  withGpu((ops) => {
    const x = ops.tensor(new Float32Array(8), 1, 8, 'f32');
    report(measured('a launch from JavaScript', 1e6 * secondsOf(ops, () => ops.scale(x, 1)), 'us'));
    const waits = secondsOf(ops, () => {
      ops.scale(x, 1);
      ops.mark().read();
    });
    report(measured('a launch, and its end heard', 1e6 * waits, 'us'));
  });
}

function products({ name, n, k, rows, isRowParallel = false }: Weight): void {
  withGpu((ops) => {
    const file = new WeightFile(n * k);
    const part = plainPart(file.source([n, k]));
    const isGateUp = name === 'gate, up';
    const numbers = n * k * (isGateUp ? 2 : 1);
    const weights = Array.from({ length: Math.max(1, Math.ceil(ROTATED_BYTES / (numbers * 2))) }, () =>
      isGateUp
        ? { gateUp: ops.loadGateUp(part, part, 'bf16'), linear: null }
        : { gateUp: null, linear: ops.loadLinear([part], 'bf16', isRowParallel) },
    );
    file.remove();
    for (const count of rows) {
      const values = new Random(count).floats(count * k);
      const seconds = ops.scope(() => {
        const x = ops.tensor(values, count, k, 'bf16');
        return secondsOf(ops, (run) => {
          const { gateUp, linear } = weights[run % weights.length]!;
          return gateUp === null ? ops.linear(x, linear) : ops.gateUp(x, gateUp, 'silu');
        });
      });
      report(productFigure(`${name} [${n}, ${k}], ${count} rows`, numbers, count, seconds));
    }
  });
}

/** Few rows are held against reads of memory, many against the matrix unit. */
function productFigure(name: string, numbers: number, rows: number, seconds: number) {
  const [bytes, flops] = [(2 * numbers) / seconds, (2 * numbers * rows) / seconds];
  const share = Math.max(bytes / BYTES_PER_SECOND, flops / FLOPS);
  const note = `${(100 * share).toFixed(0)} % of an H100, ${(1e6 * seconds).toFixed(1)} us`;
  if (rows <= 64) return measured(name, bytes / 1e9, 'GB/s', { note });
  return measured(name, flops / 1e12, 'TFLOP/s', { note, goal: rows === 4096 ? SQUARE_GOAL : null });
}

/** 64 sequences of 1024 tokens, one token each; and one prompt of 2048. */
function attention({ what, heads, kvHeads, headDim }: (typeof ATTENTION)[number]): void {
  const blockSize = 16;
  withGpu((ops) => {
    for (const { contexts, queries } of [
      { contexts: new Array<number>(64).fill(1024), queries: 1 },
      { contexts: [2048], queries: 2048 },
    ]) {
      const maxBlocks = contexts[0]! / blockSize;
      const blocks = maxBlocks * contexts.length;
      const layers = 4;
      const cache = ops.makeKvCache({ layers, blocks, blockSize, kvHeads, headDim, dtype: 'bf16' });
      const rows = contexts.length * queries;
      const zeros = new Int32Array(rows);
      const step = ops.beginStep(cache, {
        positions: zeros,
        slotMapping: zeros,
        batch: {
          numSequences: contexts.length,
          queryStarts: Int32Array.from({ length: contexts.length + 1 }, (_, i) => i * queries),
          contextLengths: Int32Array.from(contexts),
          blockTables: Int32Array.from({ length: blocks }, (_, i) => i),
          maxBlocks,
        },
      });
      ops.scope(() => {
        const q = ops.tensor(new Random(rows).floats(rows * heads * headDim), rows, heads * headDim, 'f32');
        const options = { scale: 1 / Math.sqrt(headDim), window: null };
        const seconds = secondsOf(ops, (run) => ops.attention(q, step, { ...options, layer: run % layers }));
        if (queries === 1) {
          const bytes = contexts.length * contexts[0]! * kvHeads * headDim * 4;
          report(measured(`${what} of 64 tokens, 1024 before each`, bytes / seconds / 1e9, 'GB/s'));
        } else {
          const flops = (queries * (queries + 1) * heads * headDim * 4) / 2;
          report(measured(`${what} of a prompt of 2048`, flops / seconds / 1e12, 'TFLOP/s'));
        }
      });
    }
  });
}

/** 64 sequences of one token each; and one prompt of 2048. */
function states(): void {
  withGpu((ops) => {
    convolution(ops, 64, 1);
    convolution(ops, 1, 2048);
    const decoding = deltaRule(ops, 64, 1);
    const bytes = 64 * headStatesWidth(DELTA) * 8;
    report(measured('the delta rule of 64 tokens', bytes / decoding / 1e9, 'GB/s'));
    report(measured('the delta rule of a prompt of 2048', 1e6 * deltaRule(ops, 1, 2048), 'us'));
    const scanBytes = 64 * headStatesWidth(SCAN_STATE) * 8;
    report(measured('the scan of 64 tokens', scanBytes / selectiveScan(ops, 64, 1) / 1e9, 'GB/s'));
    report(measured('the scan of a prompt of 2048', 1e6 * selectiveScan(ops, 1, 2048), 'us'));
  });
}

/** A step of sequences that go on. */
function beginStateStep(ops: Ops, numSequences: number, queries: number): StepInputs {
  const rows = numSequences * queries;
  const width = Math.max(KEPT_INPUTS + headStatesWidth(DELTA), headStatesWidth(SCAN_STATE));
  const cache = ops.makeKvCache({
    ...{ layers: 1, blocks: 1, blockSize: 4096, kvHeads: 1, headDim: 8, dtype: 'bf16' },
    states: { layers: STATE_LAYERS, slots: numSequences, width },
  });
  const slots = Int32Array.from({ length: numSequences }, (_, slot) => slot);
  return ops.beginStep(cache, {
    positions: new Int32Array(rows),
    slotMapping: new Int32Array(rows),
    batch: {
      numSequences,
      queryStarts: Int32Array.from({ length: numSequences + 1 }, (_, i) => i * queries),
      contextLengths: new Int32Array(numSequences).fill(2 * queries),
      blockTables: new Int32Array(numSequences),
      maxBlocks: 1,
    },
    states: { sources: slots, slots, saves: new Int32Array(0) },
  });
}

function convolution(ops: Ops, numSequences: number, queries: number): void {
  const rows = numSequences * queries;
  const step = beginStateStep(ops, numSequences, queries);
  const weight = ops.makeVector(new Random(1).floats(TAPS * CHANNELS));
  const seconds = ops.scope(() => {
    const x = ops.tensor(new Random(2).floats(rows * CHANNELS), rows, CHANNELS, 'f32');
    return secondsOf(ops, (run) => {
      ops.convolve(x, step, { layer: run % STATE_LAYERS, first: 0, weight, activation: 'silu' });
    });
  });
  const bytes = rows * CHANNELS * 8 + numSequences * KEPT_INPUTS * 8;
  report(measured(`a convolution of ${rows} tokens`, bytes / seconds / 1e9, 'GB/s'));
}

/** Makes f32 activations of so many columns. */
function maker(ops: Ops, rows: number) {
  const random = new Random(3);
  return (width: number, scale = 1) =>
    ops.tensor(
      random.floats(rows * width).map((x) => x * scale),
      rows,
      width,
      'f32',
    );
}

/** @returns seconds of one */
function deltaRule(ops: Ops, numSequences: number, queries: number): number {
  const step = beginStateStep(ops, numSequences, queries);
  const random = new Random(4);
  const rates = ops.makeVector(random.floats(DELTA.heads).map((x) => -Math.abs(x)));
  const rateBias = ops.makeVector(random.floats(DELTA.heads));
  return ops.scope(() => {
    const floats = maker(ops, numSequences * queries);
    const [q, k, v] = [floats(KEY_COLS), floats(KEY_COLS, DELTA.keyDim ** -0.5), floats(VALUE_COLS)];
    const tokens = { q, k, v, forgetting: floats(DELTA.heads), writing: floats(DELTA.heads) };
    const rule = { ...DELTA, first: KEPT_INPUTS, rates, rateBias };
    return secondsOf(ops, (run) => {
      ops.gatedDelta(tokens, step, { ...rule, layer: run % STATE_LAYERS });
    });
  });
}

/** @returns seconds of one */
function selectiveScan(ops: Ops, numSequences: number, queries: number): number {
  const step = beginStateStep(ops, numSequences, queries);
  const { groups, stateDim, heads, headDim } = SCAN;
  const random = new Random(4);
  const rates = ops.makeVector(random.floats(heads).map((x) => -Math.abs(x)));
  const [stepBias, skips] = [ops.makeVector(random.floats(heads)), ops.makeVector(random.floats(heads))];
  return ops.scope(() => {
    const floats = maker(ops, numSequences * queries);
    const [x, steps] = [floats(heads * headDim), floats(heads)];
    const [b, c] = [floats(groups * stateDim, stateDim ** -0.5), floats(groups * stateDim)];
    const scan = { ...SCAN, first: 0, rates, stepBias, skips };
    return secondsOf(ops, (run) => {
      ops.selectiveScan({ x, b, c, steps }, step, { ...scan, layer: run % STATE_LAYERS });
    });
  });
}
