// Storing keys and values into the paged KV memory of the reference backend.

import { valuesFor } from '../kv-rows.ts';
import { NO_SLOT, type Tensor } from '../ops.ts';
import { expectTensor } from './ref-tensor.ts';
import type { RefStepInputs } from './step-inputs.ts';

/** k, v [tokens, kvHeads * headDim] f32 -> the step's slots of a layer; slot = block * blockSize + offset, or NO_SLOT. */
export function storeKv(k: Tensor, v: Tensor | null, step: RefStepInputs, layer: number): void {
  const { cache, numTokens } = step;
  cache.expectLayer('storeKv', layer);
  const { kvHeads, headDim } = cache.headsOf(layer);
  const expected = { rows: numTokens, cols: kvHeads * headDim, dtype: 'f32' } as const;
  const keys = expectTensor('storeKv', 'k', k, expected);
  const values = expectTensor('storeKv', 'v', valuesFor(cache.shape, k, v), expected);
  for (const [row, slot] of step.slotsOf(layer).entries()) {
    if (slot === NO_SLOT) continue;
    cache.write(layer, 'key', slot, keys.row(row));
    cache.write(layer, 'value', slot, values.row(row));
  }
}
