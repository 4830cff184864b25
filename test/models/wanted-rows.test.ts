// Which hidden states logits are made of, and that a step that wants all of them copies none.

import { expect, it } from 'vitest';
import { wantedRows } from '../../src/models/wanted-rows.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';

const ops = new ReferenceOps();
const hidden = ops.tensor(Float32Array.of(1, 2, 3, 4, 5, 6), 3, 2, 'f32');

it('all rows in their order are the hidden states themselves', () => {
  expect(wantedRows(ops, hidden, Int32Array.of(0, 1, 2))).toBe(hidden);
});

it.each([[[0, 1]], [[1, 0, 2]], [[2, 2, 2]]])('rows %j are gathered', (rows) => {
  const wanted = wantedRows(ops, hidden, Int32Array.from(rows));
  expect([...ops.read(wanted)]).toEqual(rows.flatMap((row) => [2 * row + 1, 2 * row + 2]));
});
