// Vectors of the reference backend: norm weights and rope tables, in f32.

import { ShapeError } from '../../errors.ts';
import type { Vector } from '../weights.ts';

export class RefVector implements Vector {
  readonly values: Float32Array;

  constructor(values: Float32Array) {
    this.values = values;
  }

  get length(): number {
    return this.values.length;
  }
}

export function expectVector(op: string, what: string, vector: Vector, length: number): Float32Array {
  if (!(vector instanceof RefVector) || vector.length !== length)
    throw new ShapeError(op, `${what} [${length}]`, `[${vector.length}]`);
  return vector.values;
}
