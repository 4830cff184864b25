// Products of every kind of weight, whose k is split or not, whose rows are compared.

import type { Ops, Tensor } from '../../src/ops/ops.ts';
import { plainPart } from '../../src/ops/weights.ts';
import { Random } from '../../test/helpers/random.ts';
import type { WeightFolder } from '../../test/helpers/weight-file.ts';

export interface Product {
  readonly name: string;
  /** Numbers of a row that it gives. */
  readonly n: number;
  readonly k: number;
  readonly compute: (x: Tensor) => Tensor;
}

interface Shape {
  readonly n: number;
  readonly k: number;
  readonly splitsK: boolean;
  readonly isGateUp: boolean;
}

const SMALL: readonly Shape[] = [
  { n: 200, k: 2080, splitsK: true, isGateUp: false },
  { n: 72, k: 520, splitsK: false, isGateUp: true },
  { n: 320, k: 64, splitsK: false, isGateUp: false },
];
/** Of a layer of Llama-3.1-8B: the fourth of gate and up, whose rows are summed alike. */
const LARGE: readonly Shape[] = [
  { n: 6144, k: 4096, splitsK: false, isGateUp: false },
  { n: 4096, k: 14336, splitsK: true, isGateUp: false },
  { n: 3584, k: 4096, splitsK: false, isGateUp: true },
];
/** With fewer rows than this the large ones are left out: they are for devices, not for emulations. */
const ROWS_OF_LARGE = 512;

export function* makeProducts(ops: Ops, folder: WeightFolder, mostRows: number): Generator<Product> {
  for (const shape of mostRows < ROWS_OF_LARGE ? SMALL : [...SMALL, ...LARGE]) yield make(ops, folder, shape);
}

function make(ops: Ops, folder: WeightFolder, { n, k, splitsK, isGateUp }: Shape): Product {
  const random = new Random(n);
  const part = () => plainPart(folder.write([n, k], random.floats(n * k), 'bf16'));
  const name = `${isGateUp ? 'gate and up' : 'product'} [${n}, ${k}]`;
  if (isGateUp) {
    const weight = ops.loadGateUp(part(), part(), 'bf16');
    return { name, n, k, compute: (x) => ops.gateUp(x, weight, 'silu') };
  }
  const weight = ops.loadLinear([part()], 'bf16', splitsK);
  return { name, n, k, compute: (x) => ops.linear(x, weight) };
}
