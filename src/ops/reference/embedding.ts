// Token embeddings of the reference backend: rows of a weight.

import { ShapeError } from '../../errors.ts';
import type { VocabularyRange } from '../ops.ts';
import type { LinearWeight } from '../weights.ts';
import { expectLinear } from './linear.ts';
import { RefTensor } from './ref-tensor.ts';

/** ids [tokens] -> f32 [tokens, hidden]; -0 for those that are not here. */
export function embedding(
  ids: Int32Array,
  table: LinearWeight,
  { first, total }: VocabularyRange,
): RefTensor {
  const { values, scales, n, k } = expectLinear('embedding', table);
  const out = RefTensor.zeros(ids.length, k, 'f32');
  for (const [row, id] of ids.entries()) {
    if (id < 0 || id >= total)
      throw new ShapeError('embedding', `ids from 0 to ${total - 1}`, `${id} in row ${row}`);
    const own = id - first;
    if (own < 0 || own >= n) {
      out.data.fill(-0, row * k, (row + 1) * k);
      continue;
    }
    const numbers = values.subarray(own * k, (own + 1) * k);
    const scale = scales?.[own] ?? 1;
    out.data.set(scale === 1 ? numbers : numbers.map((value) => value * scale), row * k);
  }
  return out;
}
