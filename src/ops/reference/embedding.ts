// Token embeddings of the reference backend: rows of a weight.

import { ShapeError } from '../../errors.ts';
import type { LinearWeight } from '../weights.ts';
import { expectLinear } from './linear.ts';
import { RefTensor } from './ref-tensor.ts';

/** ids [tokens] -> f32 [tokens, hidden]. */
export function embedding(ids: Int32Array, table: LinearWeight): RefTensor {
  const { values, scales, n, k } = expectLinear('embedding', table);
  const out = RefTensor.zeros(ids.length, k, 'f32');
  for (const [row, id] of ids.entries()) {
    if (id < 0 || id >= n) throw new ShapeError('embedding', `ids from 0 to ${n - 1}`, `${id} in row ${row}`);
    const numbers = values.subarray(id * k, (id + 1) * k);
    const scale = scales?.[id] ?? 1;
    out.data.set(scale === 1 ? numbers : numbers.map((value) => value * scale), row * k);
  }
  return out;
}
