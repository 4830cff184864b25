// Speed of the matrix products by themselves, in the shapes of two real models: 1 and 16 rows against what memory or
// the matrix unit allows, whichever is less, 512 rows against the matrix unit.

import type { WeightFormat } from '../../src/ops/dtype.ts';
import type { Ops, Tensor } from '../../src/ops/ops.ts';
import { type GateUpWeight, type LinearWeight, plainPart } from '../../src/ops/weights.ts';
import { LimitProbe } from '../beside.ts';
import { type BenchFormat, BYTES_PER_WEIGHT, isOfInt8, openOps, weightBytesPerSecond } from '../machine.ts';
import { type Figure, median, type Section } from '../report.ts';
import { timeOps } from './time-ops.ts';
import { WeightFile } from './weight-file.ts';

interface Product {
  readonly name: string;
  readonly n: number;
  readonly k: number;
  readonly isGateUp: boolean;
  readonly rows: readonly number[];
}

const PRODUCTS: readonly Product[] = [
  ...layer('qwen2.5-0.5b', { hidden: 896, intermediate: 4864, qkv: 1152 }),
  { name: 'qwen2.5-0.5b logits', n: 151936, k: 896, isGateUp: false, rows: [1, 16] },
  ...layer('llama-3.2-1b', { hidden: 2048, intermediate: 8192, qkv: 3072 }),
  { name: 'llama-3.2-1b logits', n: 128256, k: 2048, isGateUp: false, rows: [1, 16] },
];

const WEIGHT_FORMATS: Readonly<Record<BenchFormat, WeightFormat>> = {
  bf16: 'bf16',
  int8: 'int8',
  fp8: { kind: 'fp8', groupSize: null, hasZeros: false },
  int4: { kind: 'int4', groupSize: 32, hasZeros: false },
  ternary: 'int8',
};

/** Weights used in turn come to this many bytes, so that none is still in a cache. */
const ROTATED_BYTES = 160e6;
const SECONDS = 0.1;

function layer(
  model: string,
  size: { readonly hidden: number; readonly intermediate: number; readonly qkv: number },
): Product[] {
  const rows = [1, 16, 512];
  const { hidden, intermediate, qkv } = size;
  return [
    { name: `${model} qkv`, n: qkv, k: hidden, isGateUp: false, rows },
    { name: `${model} o`, n: hidden, k: hidden, isGateUp: false, rows },
    { name: `${model} gate, up`, n: intermediate, k: hidden, isGateUp: true, rows },
    { name: `${model} down`, n: hidden, k: intermediate, isGateUp: false, rows },
  ];
}

export function productSection(format: BenchFormat): Section {
  const figures: Figure[] = [];
  const probe = new LimitProbe();
  const file = new WeightFile(Math.max(...PRODUCTS.map(({ n, k }) => n * k)));
  try {
    for (const product of PRODUCTS) {
      const ops = openOps();
      const weights = loadAll(ops, product, format, file);
      for (const rows of product.rows) figures.push(measure(ops, product, format, weights, rows, probe));
      ops.close();
    }
  } finally {
    probe.close();
    file.remove();
  }
  return { title: `Matrix products, ${format}`, figures };
}

type Weight = { readonly linear: LinearWeight } | { readonly gateUp: GateUpWeight };

function loadAll(ops: Ops, { n, k, isGateUp }: Product, format: BenchFormat, file: WeightFile): Weight[] {
  const part = format === 'ternary' ? file.ternary([n, k]) : plainPart(file.source([n, k]));
  const bytes = n * k * (isGateUp ? 2 : 1) * BYTES_PER_WEIGHT[format];
  return Array.from({ length: Math.max(2, Math.ceil(ROTATED_BYTES / bytes)) }, () =>
    isGateUp
      ? { gateUp: ops.loadGateUp(part, part, WEIGHT_FORMATS[format]) }
      : { linear: ops.loadLinear([part], WEIGHT_FORMATS[format]) },
  );
}

function measure(
  ops: Ops,
  product: Product,
  format: BenchFormat,
  weights: readonly Weight[],
  rows: number,
  probe: LimitProbe,
): Figure {
  const { n, k, isGateUp } = product;
  const name = `${product.name} [${n}, ${k}], ${rows} rows`;
  const numbers = n * k * (isGateUp ? 2 : 1);
  const seconds = (): number =>
    ops.scope(() => {
      const x = ops.tensor(new Float32Array(rows * k).fill(0.01), rows, k, 'bf16');
      return medianSeconds(ops, x, weights);
    });
  if (rows <= 16) {
    const held = probe.hold(
      format,
      () => (BYTES_PER_WEIGHT[format] * numbers) / seconds() / 1e9,
      (limits) => weightBytesPerSecond(limits, rows, format) / 1e9,
    );
    return { name, ...held, unit: 'GB/s', goal: '>= 75 %' };
  }
  const held = probe.hold(
    format,
    () => (2 * numbers * rows) / seconds() / 1e9,
    (limits) => limits.operationsPerSecond / 1e9,
  );
  return { name, ...held, unit: isOfInt8(format) ? 'GOP/s' : 'GFLOP/s', goal: null };
}

/** Median time of one product, the weights taken in turn. */
function medianSeconds(ops: Ops, x: Tensor, weights: readonly Weight[]): number {
  const seconds: number[] = [];
  const end = performance.now() + SECONDS * 1000;
  for (let i = 0; performance.now() < end || seconds.length < 5; i += 1) {
    const weight = weights[i % weights.length]!;
    const product = () =>
      'gateUp' in weight ? ops.gateUp(x, weight.gateUp, 'silu') : ops.linear(x, weight.linear);
    seconds.push(timeOps(ops, product));
  }
  return median(seconds);
}
