// JSON of a long answer, piece by piece: what is long in it is made and written a little at a time, so that neither
// its objects nor its text ever exist as a whole.

import { yieldTurn } from '../util/yield-turn.ts';

/** Characters of a piece, more or less. */
const PIECE_LENGTH = 16_384;
/** Parts of a piece: elements of a list, each of which takes time to make, however short it is. */
const PIECE_PARTS = 1024;
/** Elements of an array that are written at once. */
const SLICE = 256;

/** JSON that is written as it is: parsed, its numbers would lose digits. */
export class JsonText {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/**
 * What JSON.stringify writes, but that a field or an element may be a JsonText, or an iterable, written as a list: its
 * elements are made while it is written. Both are found in objects and in iterables, not in the elements of arrays.
 */
export function* jsonPieces(value: unknown): Generator<string, void, undefined> {
  let piece = '';
  let numParts = 0;
  for (const part of partsOf(value)) {
    piece += part;
    numParts += 1;
    if (piece.length < PIECE_LENGTH && numParts < PIECE_PARTS) continue;
    yield piece;
    piece = '';
    numParts = 0;
  }
  if (piece !== '') yield piece;
}

/** All pieces in one text, which is made in as many turns as it needs. */
export async function toJson(value: unknown): Promise<string> {
  const pieces: string[] = [];
  for (const piece of jsonPieces(value)) {
    pieces.push(piece);
    await yieldTurn();
  }
  return pieces.join('');
}

/** The elements of a list, each made from the one in `items` when it is asked for. */
export function* lazyList<T, U>(items: Iterable<T>, make: (item: T, index: number) => U): Generator<U> {
  let index = 0;
  for (const item of items) yield make(item, index++);
}

function* partsOf(value: unknown): Generator<string, void, undefined> {
  if (value instanceof JsonText) yield value.text;
  else if (Array.isArray(value)) yield* partsOfArray(value);
  else if (isIterable(value)) yield* partsOfList(value);
  else if (isLong(value)) yield* partsOfObject(value);
  else yield JSON.stringify(value) ?? 'null';
}

function* partsOfArray(array: readonly unknown[]): Generator<string, void, undefined> {
  yield '[';
  for (let start = 0; start < array.length; start += SLICE) {
    const slice = JSON.stringify(array.slice(start, start + SLICE)).slice(1, -1);
    yield start === 0 ? slice : `,${slice}`;
  }
  yield ']';
}

function* partsOfList(list: Iterable<unknown>): Generator<string, void, undefined> {
  let separator = '[';
  for (const element of list) {
    yield separator;
    yield* partsOf(element);
    separator = ',';
  }
  yield separator === '[' ? '[]' : ']';
}

/** @param object has a field that is not undefined. */
function* partsOfObject(object: object): Generator<string, void, undefined> {
  let separator = '{';
  for (const [name, field] of Object.entries(object)) {
    if (field === undefined) continue;
    yield `${separator}${JSON.stringify(name)}:`;
    yield* partsOf(field);
    separator = ',';
  }
  yield '}';
}

/** An object that is too long for one call, as far as that is seen at a glance, or that such a call cannot write. */
function isLong(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  if (value instanceof JsonText) return true;
  return Object.values(value).some(
    (field) => (Array.isArray(field) ? field.length > SLICE : isIterable(field)) || isLong(field),
  );
}

function isIterable(value: unknown): value is Iterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.iterator in value;
}
