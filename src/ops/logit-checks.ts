// Checks of the arrays that go with logits, the same for every backend: kernels trust what comes through here.

import { ShapeError } from '../errors.ts';
import type { IdLists, LogitEdits, Tensor, TokenMasks } from './ops.ts';

/** @throws ShapeError unless rows, starts and ids fit together and into `logits`. */
export function checkIdLists(op: string, logits: Tensor, { rows, starts, ids }: IdLists): void {
  checkRange(op, 'rows', rows, 0, logits.rows);
  checkRange(op, 'ids', ids, 0, logits.cols);
  const isAscending = starts.every((start, index) => start >= (starts[index - 1] ?? 0));
  if (starts.length !== rows.length + 1 || !isAscending || starts[0] !== 0 || starts.at(-1) !== ids.length) {
    throw new ShapeError(op, `${rows.length + 1} ascending starts from 0 to ${ids.length}`, `${starts}`);
  }
}

export function checkMasks(logits: Tensor, { rows, words }: TokenMasks): void {
  checkRange('maskLogits', 'rows', rows, 0, logits.rows);
  expectLength('maskLogits', 'words', rows.length * Math.ceil(logits.cols / 32), words.length);
}

export function checkEdits(logits: Tensor, edits: LogitEdits): void {
  checkIdLists('editLogits', logits, edits);
  const { rows, ids, biases, counts, repetition, frequency, presence } = edits;
  const lengths = { biases: biases.length, counts: counts.length };
  for (const [name, length] of Object.entries(lengths)) expectLength('editLogits', name, ids.length, length);
  for (const [name, values] of Object.entries({ repetition, frequency, presence })) {
    expectLength('editLogits', name, rows.length, values.length);
  }
}

/** @param numSampled tokens that negative ids may stand for. */
export function checkLogprobRows(
  logits: Tensor,
  rows: Int32Array,
  ids: Int32Array,
  numSampled: number,
  numTop: number,
): void {
  checkRange('logprobs', 'rows', rows, 0, logits.rows);
  checkRange('logprobs', 'ids', ids, -numSampled, logits.cols);
  expectLength('logprobs', 'ids', rows.length, ids.length);
  if (!Number.isInteger(numTop) || numTop < 0 || numTop > logits.cols) {
    throw new ShapeError('logprobs', `numTop from 0 to ${logits.cols}`, `${numTop}`);
  }
}

function checkRange(op: string, what: string, values: Int32Array, begin: number, end: number): void {
  const wrong = values.find((value) => value < begin || value >= end);
  if (wrong !== undefined) throw new ShapeError(op, `${what} from ${begin} to ${end - 1}`, `${wrong}`);
}

function expectLength(op: string, what: string, expected: number, got: number): void {
  if (got !== expected) throw new ShapeError(op, `${what} [${expected}]`, `[${got}]`);
}
