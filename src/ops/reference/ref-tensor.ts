// Activations of the reference backend: numbers in a Float32Array, already rounded to the tensor's dtype.

import { ShapeError } from '../../errors.ts';
import type { ComputeDType } from '../dtype.ts';
import { roundTo } from '../float-formats.ts';
import type { Tensor } from '../ops.ts';

const FREED = new Float32Array(0);

export class RefTensor implements Tensor {
  readonly rows: number;
  readonly cols: number;
  readonly dtype: ComputeDType;
  /** Index of the first number in `data`, and distance from one row to the next. */
  readonly offset: number;
  readonly stride: number;
  #numbers: Float32Array;

  constructor(
    data: Float32Array,
    rows: number,
    cols: number,
    dtype: ComputeDType,
    layout: { readonly offset: number; readonly stride: number } = { offset: 0, stride: cols },
  ) {
    this.#numbers = data;
    this.rows = rows;
    this.cols = cols;
    this.dtype = dtype;
    this.offset = layout.offset;
    this.stride = layout.stride;
  }

  get data(): Float32Array {
    if (this.#numbers === FREED) throw new ShapeError('tensor', 'one whose scope is open', 'a freed one');
    return this.#numbers;
  }

  static zeros(rows: number, cols: number, dtype: ComputeDType): RefTensor {
    return new RefTensor(new Float32Array(rows * cols), rows, cols, dtype);
  }

  /** Index of a row's first number in `data`. */
  rowStart(row: number): number {
    return this.offset + row * this.stride;
  }

  row(row: number): Float32Array {
    const start = this.rowStart(row);
    return this.data.subarray(start, start + this.cols);
  }

  free(): void {
    this.#numbers = FREED;
  }
}

/** Rounds fresh results to the dtype that their tensor declares. */
export function roundToDType(tensor: RefTensor): RefTensor {
  roundTo(tensor.dtype, tensor.data);
  return tensor;
}

function describe(tensor: Tensor): string {
  return `[${tensor.rows}, ${tensor.cols}] ${tensor.dtype}`;
}

/** The backend's own form of `tensor`, checked; what `expected` leaves out may be anything. */
export function expectTensor(
  op: string,
  what: string,
  tensor: Tensor,
  expected: { rows?: number; cols?: number; dtype?: ComputeDType },
): RefTensor {
  const { rows, cols, dtype } = expected;
  const fits =
    tensor instanceof RefTensor &&
    (rows === undefined || tensor.rows === rows) &&
    (cols === undefined || tensor.cols === cols) &&
    (dtype === undefined || tensor.dtype === dtype);
  if (!fits) {
    const wanted = `${what} [${rows ?? 'any'}, ${cols ?? 'any'}] ${dtype ?? 'f32 or halves'}`;
    throw new ShapeError(op, wanted, describe(tensor));
  }
  return tensor;
}
