// The hidden states that logits, or numbers for a whole sequence, are made of.

import type { Ops, Tensor } from '../ops/ops.ts';

/** Rows `rows` of hidden: itself where those are all of them in their order, as in most steps that only decode. */
export function wantedRows(ops: Ops, hidden: Tensor, rows: Int32Array): Tensor {
  const areAll = rows.length === hidden.rows && rows.every((row, index) => row === index);
  return areAll ? hidden : ops.gatherRows(hidden, rows);
}
