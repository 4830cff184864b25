// Restriction, biases, penalties and log-probabilities: the native kernels on every instruction set of this machine
// against the reference, bit for bit where only single roundings are made.

import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { ShapeError } from '../../src/errors.ts';
import type { LogitEdits, Ops } from '../../src/ops/ops.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import type { Logprobs } from '../../src/sampling/logprobs.ts';
import { isas, openCpu } from './native-backends.ts';

const reference = new ReferenceOps();
const BAN = Number.NEGATIVE_INFINITY;

const backends: readonly (readonly [string, Ops])[] = [
  ['reference', reference],
  ...isas.map((isa): [string, Ops] => [isa, openCpu(isa)]),
];
afterAll(() => {
  for (const [, ops] of backends) ops.close();
});

/** Runs `body` on logits of these rows; gives them as they are afterwards. */
function changed(
  ops: Ops,
  rows: readonly (readonly number[])[],
  body: (logits: ReturnType<Ops['tensor']>) => void,
) {
  return ops.scope(() => {
    const cols = rows[0]!.length;
    const logits = ops.tensor(Float32Array.from(rows.flat()), rows.length, cols, 'f32');
    body(logits);
    return Array.from(rows, (_, row) => [...ops.read(logits).subarray(row * cols, (row + 1) * cols)]);
  });
}

interface Entry {
  readonly id: number;
  readonly bias?: number;
  readonly count?: number;
}

/** Edits of one row. */
function editsOf(
  row: number,
  entries: readonly Entry[],
  { repetition = 1, frequency = 0, presence = 0 },
): LogitEdits {
  return {
    rows: Int32Array.of(row),
    starts: Int32Array.of(0, entries.length),
    ids: Int32Array.from(entries, ({ id }) => id),
    biases: Float32Array.from(entries, ({ bias = 0 }) => bias),
    counts: Int32Array.from(entries, ({ count = -1 }) => count),
    repetition: Float32Array.of(repetition),
    frequency: Float32Array.of(frequency),
    presence: Float32Array.of(presence),
  };
}

function wordsOf(ids: readonly number[], vocab: number): Uint32Array {
  const words = new Uint32Array(Math.ceil(vocab / 32));
  for (const id of ids) words[id >> 5]! |= 1 << (id & 31);
  return words;
}

function readLogprobs(ops: Ops, row: readonly number[], token: number, numTop: number): Logprobs {
  return ops.scope(() => {
    const logits = ops.tensor(Float32Array.from([...row, ...row]), 2, row.length, 'f32');
    return ops
      .logprobs(logits, Int32Array.of(1), { ids: Int32Array.of(token), sampled: null }, numTop)
      .read();
  });
}

describe.each(backends)('on %s', (_, ops) => {
  it('leaves only the allowed tokens of the rows that are restricted', () => {
    const allowed = { rows: Int32Array.of(1), starts: Int32Array.of(0, 2), ids: Int32Array.of(2, 0) };
    const rows = changed(
      ops,
      [
        [1, 2, 3],
        [4, 5, 6],
        [7, 8, 9],
      ],
      (logits) => ops.restrictLogits(logits, allowed),
    );
    expect(rows).toEqual([
      [1, 2, 3],
      [4, BAN, 6],
      [7, 8, 9],
    ]);
  });

  it('forbids the tokens whose bits are not set, in the rows that have a mask', () => {
    const values = Array.from({ length: 70 }, (_, id) => id);
    const allowed = [0, 31, 32, 47, 48, 64, 69];
    const words = wordsOf(allowed, 70);
    // What is past the vocabulary is not looked at.
    words[2]! |= 1 << 6;
    const masks = { rows: Int32Array.of(1), words };
    const rows = changed(ops, [values, values, values], (logits) => ops.maskLogits(logits, masks));
    expect(rows).toEqual([values, values.map((id) => (allowed.includes(id) ? id : BAN)), values]);
  });

  it('adds the bias, then repetition, then frequency, then presence', () => {
    const entries = [
      { id: 0, bias: 1, count: 2 },
      { id: 1, bias: -1, count: 0 },
      { id: 2, count: 0 },
      { id: 3, bias: 0.5 },
    ];
    const penalties = { repetition: 2, frequency: 0.5, presence: 0.25 };
    const [row] = changed(ops, [[3, 0.5, 4, 1, 6]], (logits) =>
      ops.editLogits(logits, editsOf(0, entries, penalties)),
    );
    // (3 + 1) / 2 - 2 * 0.5 - 0.25; (0.5 - 1) * 2; 4 / 2; 1 + 0.5; untouched.
    expect(row).toEqual([0.75, -1, 2, 1.5, 6]);
  });

  it('keeps a forbidden token forbidden, whatever else is said about it', () => {
    const entries = [
      { id: 1, bias: BAN },
      { id: 1, bias: 100, count: 3 },
    ];
    const penalties = { repetition: 0.5, frequency: -2, presence: -2 };
    const [row] = changed(ops, [[1, 2]], (logits) => ops.editLogits(logits, editsOf(0, entries, penalties)));
    expect(row).toEqual([1, BAN]);
  });

  it('gives the log-softmax, the rank and the most probable tokens, the lower id first among equals', () => {
    const { logprobs, ranks, topIds, topLogprobs } = readLogprobs(ops, [1, 3, 2, 3, BAN].map(Number), 2, 5);
    const total = Math.log(Math.exp(1) + 2 * Math.exp(3) + Math.exp(2));
    expect(logprobs[0]).toBeCloseTo(2 - total, 5);
    expect(ranks[0]).toBe(3);
    expect([...Array.from(topIds)]).toEqual([1, 3, 2, 0, 4]);
    expect(topLogprobs[0]).toBeCloseTo(3 - total, 5);
    expect(topLogprobs[4]).toBe(BAN);
  });

  it('gives no top list where none was asked for', () => {
    expect(readLogprobs(ops, [1, 2], 1, 0)).toMatchObject({ numTop: 0, topIds: new Int32Array(0) });
  });

  it('refuses rows, ids and counts that do not fit', () => {
    const attempt = (body: (logits: ReturnType<Ops['tensor']>) => void) => () => changed(ops, [[1, 2]], body);
    const lists = (row: number, id: number) => ({
      rows: Int32Array.of(row),
      starts: Int32Array.of(0, 1),
      ids: Int32Array.of(id),
    });
    expect(attempt((logits) => ops.restrictLogits(logits, lists(1, 0)))).toThrow(ShapeError);
    expect(attempt((logits) => ops.restrictLogits(logits, lists(0, 2)))).toThrow(ShapeError);
    expect(attempt((logits) => ops.editLogits(logits, editsOf(0, [{ id: -1 }], {})))).toThrow(ShapeError);
    const masks = (row: number, numWords: number) => ({
      rows: Int32Array.of(row),
      words: new Uint32Array(numWords),
    });
    expect(attempt((logits) => ops.maskLogits(logits, masks(1, 1)))).toThrow(ShapeError);
    expect(attempt((logits) => ops.maskLogits(logits, masks(0, 2)))).toThrow(ShapeError);
    expect(
      attempt((logits) =>
        ops.logprobs(logits, Int32Array.of(0), { ids: Int32Array.of(0), sampled: null }, 3).read(),
      ),
    ).toThrow(ShapeError);
    expect(
      attempt((logits) =>
        ops.logprobs(logits, Int32Array.of(0), { ids: Int32Array.of(), sampled: null }, 1).read(),
      ),
    ).toThrow(ShapeError);
  });
});

describe.each(backends.slice(1))('%s against the reference', (_, ops) => {
  /** Steps of 1/256: ties are common, and nothing is so small that the kernels take it for zero. */
  const number = (min: number, max: number) =>
    fc.integer({ min: min * 256, max: max * 256 }).map((steps) => steps / 256);
  const logit = number(-40, 40);
  const row = fc.array(logit, { minLength: 1, maxLength: 700 });

  it('changes logits to the same bits', () => {
    const entry = fc.record({
      place: fc.nat(),
      bias: fc.oneof(number(-100, 100), fc.constant(BAN)),
      count: fc.integer({ min: -1, max: 50 }),
    });
    const penalties = fc.record({
      repetition: number(1, 1000).map((value) => value / 100),
      frequency: number(-2, 2),
      presence: number(-2, 2),
    });
    fc.assert(
      fc.property(row, fc.array(entry, { maxLength: 60 }), penalties, (values, entries, settings) => {
        const placed = entries.map(({ place, ...rest }) => ({ ...rest, id: place % values.length }));
        const edits = editsOf(1, placed, settings);
        const run = (backend: Ops) =>
          changed(backend, [values, values], (logits) => backend.editLogits(logits, edits));
        expect(run(ops)).toEqual(run(reference));
      }),
    );
  });

  it('forbids the same tokens of rows of any length', () => {
    fc.assert(
      fc.property(row, fc.array(fc.integer(), { minLength: 22, maxLength: 22 }), (values, bits) => {
        const words = Uint32Array.from(bits).subarray(0, Math.ceil(values.length / 32));
        const masks = { rows: Int32Array.of(1), words: words.slice() };
        const run = (backend: Ops) =>
          changed(backend, [values, values], (logits) => backend.maskLogits(logits, masks));
        expect(run(ops)).toEqual(run(reference));
      }),
    );
  });

  it('finds the same ranks and tokens, and the same log-probabilities but for the last bits', () => {
    fc.assert(
      fc.property(row, fc.nat(), fc.nat(), (values, token, top) => {
        const id = token % values.length;
        const numTop = top % (values.length + 1);
        const got = readLogprobs(ops, values, id, numTop);
        const expected = readLogprobs(reference, values, id, numTop);
        expect([got.ranks, got.topIds]).toEqual([expected.ranks, expected.topIds]);
        const difference = Array.from(got.topLogprobs, (value, i) =>
          Math.abs(value - expected.topLogprobs[i]!),
        );
        expect(Math.max(0, ...difference, Math.abs(got.logprobs[0]! - expected.logprobs[0]!))).toBeLessThan(
          2e-5,
        );
      }),
    );
  });

  it('gives a row the same log-probabilities alone and among others', () => {
    const vocab = 5003;
    const values = Float32Array.from({ length: 9 * vocab }, (_, i) => 20 * Math.sin(i * i * 0.37));
    const numTop = 20;
    ops.scope(() => {
      const all = ops.tensor(values, 9, vocab, 'f32');
      const rows = Int32Array.from({ length: 9 }, (_, i) => i);
      const tokens = rows.map((r) => (r * 611) % vocab);
      const together = ops.logprobs(all, rows, { ids: tokens, sampled: null }, numTop).read();
      for (const r of rows) {
        const alone = ops
          .logprobs(all, Int32Array.of(r), { ids: Int32Array.of(tokens[r]!), sampled: null }, numTop)
          .read();
        expect(alone.logprobs[0]).toBe(together.logprobs[r]);
        expect(Array.from(alone.topLogprobs)).toEqual(
          Array.from(together.topLogprobs).slice(r * numTop, (r + 1) * numTop),
        );
      }
    });
  });

  it('gives several tokens of a row the same log-probabilities as each alone, in any order of rows', () => {
    const vocab = 5003;
    const values = Float32Array.from({ length: 3 * vocab }, (_, i) => 20 * Math.sin(i * i * 0.37));
    ops.scope(() => {
      const all = ops.tensor(values, 3, vocab, 'f32');
      const rows = Int32Array.of(1, 1, 1, 0, 2, 2, 1, 0, 0, 0, 2);
      const ids = rows.map((_, i) => (i * 611) % vocab);
      const together = ops.logprobs(all, rows, { ids, sampled: null }, 0).read();
      for (const [i, row] of rows.entries()) {
        const tokens = { ids: Int32Array.of(ids[i]!), sampled: null };
        const alone = ops.logprobs(all, Int32Array.of(row), tokens, 0).read();
        expect([together.logprobs[i], together.ranks[i]]).toEqual([alone.logprobs[0], alone.ranks[0]]);
      }
    });
  });
});
