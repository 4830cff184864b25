// The law of every op, on this device: a row of a product or of attention has the same bytes whatever else is computed with it.

import { parseArgs } from 'node:util';
import type { Ops } from '../../src/ops/ops.ts';
import { Random } from '../../test/helpers/random.ts';
import { WeightFolder } from '../../test/helpers/weight-file.ts';
import { attend, type Heads, makeSequences, storeTokens } from '../../test/ops/attention-cases.ts';
import { openGpu } from './gpu.ts';
import { makeProducts, type Product } from './products-under-test.ts';
import { failed, passed, report } from './result.ts';

/** Of every width of a tile, and beside it. */
const NOTABLE = [
  1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 200, 256, 511, 1000, 1024, 2047,
  2048,
];
/** Rows of more numbers are compared in notable numbers alone: the host does it. */
const MOST_COLUMNS = 512;

/** Those first whose kernels are the newest: where time is over, the last ones are not compared. */
const HEADS: readonly Heads[] = [
  { headDim: 512, kvHeads: 1, group: 8, blockSize: 16, window: null },
  { headDim: 256, kvHeads: 1, group: 2, blockSize: 16, window: null },
  { headDim: 64, kvHeads: 2, group: 4, blockSize: 16, window: null },
  { headDim: 128, kvHeads: 1, group: 4, blockSize: 16, window: null },
  { headDim: 128, kvHeads: 1, group: 2, blockSize: 32, window: 100, softcap: 30, hasSinks: true },
];

const { values } = parseArgs({ options: { 'most-rows': { type: 'string', default: '2048' } } });
const mostRows = Number(values['most-rows']);

const folder = new WeightFolder();
const ops = openGpu();
try {
  for (const heads of HEADS) checkAttention(ops, heads);
  for (const product of makeProducts(ops, folder, mostRows)) checkProduct(ops, product);
} finally {
  ops.close();
  folder.remove();
}

function isSame(a: Float32Array, b: Float32Array): boolean {
  return Buffer.from(a.buffer, a.byteOffset, a.byteLength).equals(
    Buffer.from(b.buffer, b.byteOffset, b.byteLength),
  );
}

/** 1 to `most`, or the notable ones of them. */
function counts(most: number, columns: number): number[] {
  const isEach = columns <= MOST_COLUMNS;
  return isEach ? Array.from({ length: most }, (_, i) => i + 1) : NOTABLE.filter((count) => count <= most);
}

function conclude(
  name: string,
  checked: readonly number[],
  differing: readonly number[],
  what: string,
): void {
  const all = `${checked.length} numbers of ${what} from ${checked[0]} to ${checked.at(-1)}`;
  if (differing.length === 0) report(passed(name, all));
  else report(failed(name, `other bytes at ${differing.slice(0, 20).join(', ')} of ${all}`));
}

/** Each number of rows, from behind, against the same rows among all. */
function checkProduct(ops: Ops, { name, n, k, compute }: Product): void {
  const x = new Random(k).floats(mostRows * k);
  const run = (first: number, count: number) =>
    ops.scope(() =>
      ops.read(compute(ops.tensor(x.subarray(first * k, (first + count) * k), count, k, 'bf16'))),
    );
  const all = run(0, mostRows);
  const checked = counts(mostRows, n);
  const differing = checked.filter((count) => {
    const first = mostRows - count;
    return !isSame(run(first, count), all.subarray(first * n, mostRows * n));
  });
  conclude(name, checked, differing, 'rows');
}

/** The last tokens of one sequence in a step, and each token by itself beside another sequence, against all tokens in one step. */
function checkAttention(ops: Ops, heads: Heads): void {
  const { headDim, kvHeads, group, blockSize } = heads;
  const width = headDim * kvHeads * group;
  const sizes = [
    { context: mostRows, queries: mostRows },
    { context: 19, queries: 3 },
  ];
  const { sequences, numBlocks } = makeSequences(new Random(headDim), heads, 'bf16', sizes);
  const [one, other] = [sequences[0]!, sequences[1]!];
  const cache = ops.makeKvCache({ layers: 1, blocks: numBlocks, blockSize, kvHeads, headDim, dtype: 'bf16' });
  ops.scope(() => {
    for (const sequence of sequences) storeTokens(ops, cache, 0, sequence, 0, sequence.context);
  });
  const run = (...batch: readonly (typeof one)[]) => ops.scope(() => attend(ops, cache, 0, heads, batch));
  const all = run(one);
  const name = `attention, heads of ${headDim}${heads.window === null ? '' : `, window ${heads.window}`}`;
  const checked = counts(mostRows, width);
  const chunks = checked.filter(
    (queries) => !isSame(run({ ...one, queries }), all.subarray((mostRows - queries) * width)),
  );
  conclude(`${name}: last tokens`, checked, chunks, 'tokens');
  const steps = checked.filter((context) => {
    const expected = all.subarray((context - 1) * width, context * width);
    const got = run(other, { ...one, context, queries: 1 }).subarray(other.queries * width);
    return !isSame(got, expected) || !isSame(run({ ...one, context, queries: 1 }), expected);
  });
  conclude(`${name}: each token alone, and beside others`, checked, steps, 'tokens');
}
