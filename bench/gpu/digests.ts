// Runs each op of a GPU once, over fixed numbers, and prints a digest of what it gave: equal digests are equal bytes. Of ops on the matrix unit, whose bytes may
// differ from device to device, it prints the numbers as well.

import { createHash } from 'node:crypto';
import { NO_SLOT, type Ops, type Tensor } from '../../src/ops/ops.ts';
import { plainPart } from '../../src/ops/weights.ts';
import { Random } from '../../test/helpers/random.ts';
import { WeightFolder } from '../../test/helpers/weight-file.ts';
import { attend, type Heads, makeSequences, storeTokens } from '../../test/ops/attention-cases.ts';
import { beginStep } from '../../test/ops/steps.ts';
import { openGpu } from './gpu.ts';

/** A row of more than 256 numbers is summed by a whole block of threads. */
const WIDTHS = [40, 1000];
/** The last bit of a sum is rounded away in most rows. */
const ROWS = 100;
const SHAPE = { layers: 1, blocks: 8, blockSize: 16, kvHeads: 1, headDim: 64, dtype: 'bf16' } as const;

const folder = new WeightFolder();
const ops = openGpu();
try {
  for (const cols of WIDTHS) rowOps(ops, cols);
  pages(ops);
  states(ops);
  logits(ops);
  products(ops);
  attention(ops);
} finally {
  ops.close();
  folder.remove();
}

function print(name: string, ...numbers: readonly ArrayLike<number>[]): void {
  const hash = createHash('sha256');
  // Every number is one of float32 or a whole one: a double holds it.
  for (const values of numbers) hash.update(Float64Array.from(values));
  console.log(`digest ${name} ${hash.digest('hex')}`);
}

function printNumbers(name: string, numbers: Float32Array): void {
  print(name, numbers);
  console.log(
    `numbers ${name} ${Buffer.from(numbers.buffer, numbers.byteOffset, numbers.byteLength).toString('base64')}`,
  );
}

/** Ops whose bytes are those of the emulation: nothing of them runs on the matrix unit. */
function rowOps(ops: Ops, cols: number): void {
  const random = new Random(cols);
  const [values, others] = [random.floats(ROWS * cols).map((value) => value * 8), random.floats(ROWS * cols)];
  const weight = ops.makeVector(random.floats(cols));
  const head = ops.makeVector(random.floats(cols / 4));
  const check = (name: string, compute: (x: Tensor) => Tensor) =>
    ops.scope(() => print(`row-${name}-${cols}`, ops.read(compute(ops.tensor(values, ROWS, cols, 'f32')))));
  const inPlace = (name: string, change: (x: Tensor) => void) =>
    check(name, (x) => {
      change(x);
      return x;
    });
  check('rmsNorm', (x) => ops.rmsNorm(x, weight, 1e-5, 'f32'));
  check('rmsNorm-bf16', (x) => ops.rmsNorm(x, weight, 1e-5, 'bf16'));
  check('layerNorm', (x) => ops.layerNorm(x, weight, weight, 1e-5, 'f32'));
  inPlace('qkNorm', (x) => ops.qkNorm(x, head, 1e-5));
  inPlace('headLayerNorm', (x) => ops.headLayerNorm(x, weight, cols / 4, 1e-5));
  for (const activation of ['silu', 'gelu', 'gelu_tanh', 'relu'] as const) {
    check(activation, (x) => ops.activate(x, activation, 'f32'));
  }
  check('xielu', (x) => ops.xielu(x, { positive: 0.7, negative: 1.3, linear: 0.5, least: -1e-6 }, 'f32'));
  check('cast', (x) => ops.cast(x, 'bf16'));
  inPlace('addScaled', (x) => ops.addScaled(x, ops.tensor(others, ROWS, cols, 'f32'), 0.7));
  inPlace('scale', (x) => ops.scale(x, 1.3));
  inPlace('softcap', (x) => ops.softcap(x, 20));
  check('scaleColumns', (x) => ops.scaleColumns(x, weight, 'f32'));
  inPlace('sparsify', (x) => ops.sparsify(x, 0.7));
  check('joinStreams', (x) => ops.joinStreams(x, ops.tensor(others, ROWS, cols, 'f32'), 1e-5));
  inPlace('addMixed', (x) =>
    ops.addMixed(x, x, ops.split(ops.tensor(others, ROWS, cols, 'f32'), [2, cols - 2])[0]!, {
      width: cols / 4,
      coefficients: ops.makeVector(random.floats(32)),
      offset: 0.5,
    }),
  );
  for (const opening of ['silu', 'sigmoid', 'identity'] as const) {
    check(`gate-${opening}`, (x) => ops.gate(x, ops.tensor(others, ROWS, cols, 'f32'), opening, 'bf16'));
  }
  check('meanRows', (x) => ops.meanRows(x, Int32Array.of(0, 2, ROWS)));
  check('gatherRows', (x) => ops.gatherRows(x, Int32Array.of(3, 0, 3)));
  const table = folder.write([ROWS, cols], others, 'bf16');
  const ids = { ids: Int32Array.of(4, 0, 2), sampled: null };
  check('embedding', () => ops.embedding(ids, ops.loadLinear([plainPart(table)], 'bf16')));
}

function pages(ops: Ops): void {
  const random = new Random(1);
  const [table, values] = [ops.makeVector(random.floats(64 * 64)), random.floats(ROWS * 128)];
  for (const isInterleaved of [false, true]) {
    ops.scope(() => {
      const x = ops.tensor(values, ROWS, 128, 'f32');
      const positions = Int32Array.from({ length: ROWS }, (_, row) => (row * 29) % 64);
      ops.rope(x, beginStep(ops, ops.makeKvCache(SHAPE), ROWS, { positions }), table, {
        headDim: 64,
        isInterleaved,
      });
      print(`row-rope-${isInterleaved ? 'pairs' : 'halves'}`, ops.read(x));
    });
  }
}

/** Two sequences, and in a second step one more token of each. */
function states(ops: Ops): void {
  const [heads, taps] = [2, 4];
  for (const dim of [64, 128, 256]) {
    const random = new Random(dim);
    const cols = heads * dim;
    const width = (taps - 1) * cols + heads * dim * dim;
    const cache = ops.makeKvCache({ ...SHAPE, states: { layers: 2, slots: 2, width } });
    const vector = (length: number) => ops.makeVector(random.floats(length));
    const [weight, bias, rateBias] = [vector(taps * cols), vector(cols), vector(heads)];
    const convolution = { layer: 0, first: 0, weight, bias, activation: 'silu' } as const;
    const sizes = { keyHeads: heads, keyDim: dim, heads, valueDim: dim, isTiled: false };
    const rates = ops.makeVector(Float32Array.of(-0.1, -2));
    const rule = { layer: 0, first: (taps - 1) * cols, ...sizes, rates, rateBias };
    const scanSizes = { groups: 1, stateDim: dim, heads, headDim: dim };
    const scan = { ...scanSizes, layer: 1, first: 0, rates, stepBias: rateBias, skips: vector(heads) };
    for (const [rows, before] of [
      [ROWS / 2 - 1, 0],
      [1, ROWS / 2 - 1],
    ] as const) {
      ops.scope(() => {
        const floats = (of: number, scale = 1) =>
          ops.tensor(
            random.floats(2 * rows * of).map((value) => value * scale),
            2 * rows,
            of,
            'f32',
          );
        const batch = {
          numSequences: 2,
          queryStarts: Int32Array.of(0, rows, 2 * rows),
          contextLengths: new Int32Array(2).fill(before + rows),
          blockTables: Int32Array.from({ length: 8 }, (_, block) => block),
          maxBlocks: 4,
        };
        const slots = Int32Array.of(1, 0);
        const states = {
          sources: before === 0 ? slots.map(() => NO_SLOT) : slots,
          slots,
          saves: new Int32Array(0),
        };
        const step = beginStep(ops, cache, 2 * rows, { batch, states });
        const v = ops.convolve(floats(cols), step, convolution);
        print(`row-convolve-${dim}-${rows}`, ops.read(v));
        const [q, k] = [floats(cols), floats(cols, 1 / Math.sqrt(dim))];
        const tokens = { q, k, v, forgetting: floats(heads), writing: floats(heads) };
        print(`row-gatedDelta-${dim}-${rows}`, ops.read(ops.gatedDelta(tokens, step, rule)));
        const scanned = { x: v, b: floats(dim, 1 / Math.sqrt(dim)), c: floats(dim), steps: floats(heads) };
        print(`row-selectiveScan-${dim}-${rows}`, ops.read(ops.selectiveScan(scanned, step, scan)));
      });
    }
    cache.free();
  }
}

function logits(ops: Ops): void {
  const random = new Random(2);
  const [rows, vocab] = [4, 5000];
  const values = random.floats(rows * vocab).map((value) => value * 6);
  const lists = {
    rows: Int32Array.of(2, 0),
    starts: Int32Array.of(0, 3, 4),
    ids: Int32Array.of(5, 70, 5, 99),
  };
  ops.scope(() => {
    const x = ops.tensor(values, rows, vocab, 'f32');
    ops.editLogits(x, {
      ...lists,
      biases: Float32Array.of(1, -2, 0.5, 3),
      counts: Int32Array.of(2, -1, 0, 1),
      repetition: Float32Array.of(1.3, 1),
      frequency: Float32Array.of(0.5, 0),
      presence: Float32Array.of(0.25, 0),
    });
    const words = Uint32Array.from({ length: Math.ceil(vocab / 32) }, (_, i) => Math.imul(i + 1, 0x9e3779b1));
    ops.maskLogits(x, { rows: Int32Array.of(1), words });
    print('row-logits', ops.read(x));
    const sampled = ops.sample(x, {
      temperature: Float32Array.of(0, 1, 0.8, 1.5),
      topK: Int32Array.of(0, 0, 20, 2),
      topP: Float32Array.of(1, 0.9, 0.95, 1),
      minP: Float32Array.of(0, 0, 0.01, 0),
      uniform: Float64Array.of(0, 0.3, 0.6, 0.99),
    });
    const told = ops
      .logprobs(x, Int32Array.of(0, 2, 1), { ids: Int32Array.of(-1, -3, 12), sampled }, 3)
      .read();
    print('row-sample', sampled.read());
    print('row-logprobs', told.logprobs, told.ranks, told.topIds, told.topLogprobs);
    ops.restrictLogits(x, lists);
    print('row-restrictLogits', ops.read(x));
  });
}

/** Their sums have the order of the device's matrix unit. */
function products(ops: Ops): void {
  const random = new Random(3);
  const [n, k] = [72, 1032];
  const part = () =>
    plainPart(folder.write([n, k], random.floats(n * k), 'bf16'), folder.write([n], random.floats(n)));
  const [weight, gateUp] = [ops.loadLinear([part()], 'bf16', true), ops.loadGateUp(part(), part(), 'bf16')];
  for (const rows of [1, 9, 20, 40, 70]) {
    const values = random.floats(rows * k);
    ops.scope(() => {
      const x = ops.tensor(values, rows, k, 'bf16');
      printNumbers(`linear-${rows}`, ops.read(ops.linear(x, weight)));
      printNumbers(`gateUp-${rows}`, ops.read(ops.gateUp(x, gateUp, 'silu')));
    });
  }
}

function attention(ops: Ops): void {
  for (const headDim of [64, 128, 256, 512]) {
    const heads: Heads = { headDim, kvHeads: 1, group: 2, blockSize: 16, window: null };
    const sizes = [
      { context: 300, queries: 1 },
      { context: 70, queries: 1 },
    ];
    const { sequences, numBlocks } = makeSequences(new Random(headDim), heads, 'bf16', sizes);
    ops.scope(() => {
      const cache = ops.makeKvCache({ ...SHAPE, blocks: numBlocks, headDim });
      for (const one of sequences) storeTokens(ops, cache, 0, one, 0, one.context);
      printNumbers(`attention-decode-${headDim}`, attend(ops, cache, 0, heads, sequences));
      const chunks = sequences.map((one) => ({ ...one, queries: 40 }));
      printNumbers(`attention-prefill-${headDim}`, attend(ops, cache, 0, heads, chunks));
    });
  }
}
