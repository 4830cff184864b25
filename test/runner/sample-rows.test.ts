// A row of logits that is restricted to a list of tokens gives the likeliest one of them, however long the list is.

import { describe, expect, it } from 'vitest';
import { sampleRows } from '../../src/runner/sample-rows.ts';
import type { RowEdits } from '../../src/sampling/logit-rules.ts';
import { availableBackends, openBackend } from '../helpers/backends.ts';
import { Random } from '../helpers/random.ts';

const VOCAB = 1000;
const GREEDY = { temperature: 0, topK: 0, topP: 1, minP: 0, seed: 1, sample: 0, numLogprobs: null };
const NO_EDITS = { mask: null, ids: [], biases: [], counts: [], repetition: 1, frequency: 0, presence: 0 };

describe.each(availableBackends)('rows restricted to a list on %s', (backend) => {
  it.each([1, 20, 32, 33, 500, 1000])('sample the likeliest of %i tokens', (length) => {
    const random = new Random(length);
    const logits = Float32Array.from({ length: 3 * VOCAB }, () => random.next());
    const allowedTokenIds = Int32Array.from({ length }, (_, index) => (index * 7919 + 3) % VOCAB);
    const edits: (RowEdits | null)[] = [
      { ...NO_EDITS, allowedTokenIds },
      null,
      { ...NO_EDITS, allowedTokenIds, ids: [10], biases: [2], counts: [-1] },
    ];
    const expected = edits.map((edit, row) => {
      const values = [...logits.subarray(row * VOCAB, (row + 1) * VOCAB)];
      if (row === 2) values[10]! += 2;
      const allowed = edit === null ? [...values.keys()] : [...allowedTokenIds];
      return allowed.reduce((best, id) => (values[id]! > values[best]! ? id : best));
    });
    const ops = openBackend(backend);
    try {
      // The second time the list is known.
      for (let time = 0; time < 2; time += 1) {
        const tokens = ops.scope(() => {
          const tensor = ops.tensor(logits, 3, VOCAB, 'f32');
          const rows = edits.map((edit) => ({ sampling: GREEDY, position: 0, edits: edit }));
          return sampleRows(ops, tensor, rows).tokens;
        });
        expect([...tokens.read()]).toEqual(expected);
      }
    } finally {
      ops.close();
    }
  });
});
