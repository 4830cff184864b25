// The numbers that adapters add to products, in the reference backend.

import { ShapeError } from '../../errors.ts';
import { roundTo } from '../float-formats.ts';
import type { Lora, LoraNumbers } from '../lora.ts';
import type { StepLoras } from '../ops.ts';
import type { RefTensor } from './ref-tensor.ts';
import { RefStepInputs } from './step-inputs.ts';

/** A and B rounded to their format. */
export class RefLora implements Lora {
  readonly numbers: LoraNumbers;
  #isFreed = false;

  constructor(numbers: LoraNumbers) {
    const [a, b] = [numbers.a.slice(), numbers.b.slice()];
    for (const matrix of [a, b]) roundTo(numbers.dtype, matrix);
    this.numbers = { ...numbers, a, b, scales: numbers.scales.slice() };
  }

  get byteLength(): number {
    return this.numbers.a.byteLength + this.numbers.b.byteLength;
  }

  get isFreed(): boolean {
    return this.#isFreed;
  }

  free(): void {
    this.#isFreed = true;
  }
}

/**
 * Calls add(row, column, value) with each number that the adapter of a row adds; columns of up follow all those of gate.
 * @throws ShapeError where a lora is freed, or made for another product.
 */
export function forAddends(
  { step, loras }: StepLoras,
  x: RefTensor,
  isGateUp: boolean,
  add: (row: number, column: number, value: number) => void,
): void {
  if (!(step instanceof RefStepInputs)) throw new ShapeError('linear', 'a step of this backend', 'another');
  for (const { adapter, lora } of loras) {
    const { numbers } = expectLora(lora, x, isGateUp);
    for (let row = 0; row < x.rows; row++) {
      if (step.adapterOfRow(row) === adapter)
        addRow(numbers, x.row(row), (col, value) => add(row, col, value));
    }
  }
}

function addRow(numbers: LoraNumbers, x: Float32Array, add: (column: number, value: number) => void): void {
  const { dtype, k, a, scales, parts, b } = numbers;
  const lowRank = Float32Array.from(scales, (scale, i) => Math.fround(dot(a, i * k, x, k)) * scale);
  roundTo(dtype, lowRank);
  let start = 0;
  for (const { firstColumn, columns, firstRank, ranks } of parts) {
    const own = lowRank.subarray(firstRank, firstRank + ranks);
    for (let column = 0; column < columns; column++, start += ranks) {
      add(firstColumn + column, dot(b, start, own, ranks));
    }
  }
}

function expectLora(lora: Lora, x: RefTensor, isGateUp: boolean): RefLora {
  const fits =
    lora instanceof RefLora &&
    !lora.isFreed &&
    lora.numbers.k === x.cols &&
    lora.numbers.dtype === x.dtype &&
    lora.numbers.isGateUp === isGateUp;
  if (fits) return lora;
  throw new ShapeError('linear', `a lora of this backend for ${x.cols} columns in ${x.dtype}`, 'another');
}

function dot(matrix: Float32Array, start: number, x: Float32Array, k: number): number {
  let sum = 0;
  for (let i = 0; i < k; i++) sum += matrix[start + i]! * x[i]!;
  return sum;
}
