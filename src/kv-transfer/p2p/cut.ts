// How the blocks of two instances are cut into the pieces that go from one to the other: each lies within one part of the KV memory and
// one block of either. Instances that are alike exchange layer blocks as they are.

import type { KvPartPlace } from '../connector.ts';

/** The heads of a layer are cut into `shards` of one size, the tokens of a block into runs of `tokens`. */
export interface Cut {
  readonly shards: number;
  readonly tokens: number;
}

/** What an instance tells of its blocks. */
export interface CutSource {
  readonly block_size: number;
  readonly layers: number;
  readonly heads: number;
  readonly parts: readonly { readonly layers: Ends; readonly heads: Ends }[];
}

type Ends = readonly [first: number, end: number];

/** Of two whose layers and heads are as many, and whose blocks divide each other. */
export function cutOf(one: CutSource, other: CutSource): Cut {
  const shardHeads = [...one.parts, ...other.parts].reduce(
    (common, { heads: [first, end] }) => commonDivisor(common, commonDivisor(first, end)),
    one.heads,
  );
  return { shards: one.heads / shardHeads, tokens: Math.min(one.block_size, other.block_size) };
}

/** Whether blocks of one size are made up of whole blocks of the other. */
export function divideEachOther(one: number, other: number): boolean {
  return Math.min(one, other) > 0 && Math.max(one, other) % Math.min(one, other) === 0;
}

/** Whether the parts hold each head of each layer once; parts that hold the same count as one. */
export function makeUpOneMemory({ layers, heads, parts }: CutSource): boolean {
  const places = new Map(parts.map((part) => [[...part.layers, ...part.heads].join(), part]));
  const distinct = [...places.values()];
  const areas = distinct.map((part) => length(part.layers) * length(part.heads));
  const areWithin = distinct.every((part) => isWithin(part.layers, layers) && isWithin(part.heads, heads));
  const areApart = distinct.every((part, i) => distinct.slice(i + 1).every((next) => !doMeet(part, next)));
  return areWithin && areApart && areas.reduce((sum, area) => sum + area, 0) === layers * heads;
}

export function endsOf({ first, end }: KvPartPlace['heads']): [first: number, end: number] {
  return [first, end];
}

function doMeet(one: CutSource['parts'][number], other: CutSource['parts'][number]): boolean {
  const overlap = ([first, end]: Ends, [begin, stop]: Ends) => first < stop && begin < end;
  return overlap(one.layers, other.layers) && overlap(one.heads, other.heads);
}

function isWithin([first, end]: Ends, count: number): boolean {
  return first < end && end <= count;
}

function length([first, end]: Ends): number {
  return end - first;
}

function commonDivisor(a: number, b: number): number {
  return b === 0 ? a : commonDivisor(b, a % b);
}
