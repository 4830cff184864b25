// The paged KV memory of the reference backend, and what each format keeps of a number.

import { ShapeError } from '../../errors.ts';
import type { HalfDType, KvDType } from '../dtype.ts';
import { packE4m3, roundTo, unpackE4m3 } from '../float-formats.ts';
import {
  headsOf,
  kvRowBytes,
  type LayerPlace,
  layerPlaces,
  numKvGroups,
  numKvRows,
  vectorsPerToken,
} from '../kv-rows.ts';
import { type KvCache, type KvCacheShape, type KvHeads, NO_SLOT } from '../ops.ts';
import { quantizeRow } from './quantize.ts';

/** A state that goes into blocks, or comes out of them. */
export interface StateMove {
  readonly slot: number;
  readonly isLeaving: boolean;
  readonly blocks: readonly number[];
}

/**
 * A row is one array [blocks, parts, 2 (keys, values), kvHeads, blockSize, headDim] of numbers as attention reads them; 1 where the keys
 * are the values.
 */
export class RefKvCache implements KvCache {
  readonly shape: KvCacheShape;
  readonly half: HalfDType;
  readonly layerBlockBytes: number;
  /** Block tables that a sequence has. */
  readonly numGroups: number;
  readonly #places: readonly LayerPlace[];
  readonly #rows: Float32Array[];
  /** Numbers of a block in a row. */
  readonly #blockNumbers: number;
  /** [layers, slots] of those that keep states. */
  readonly #states: Float32Array[][];
  /** By the first of the blocks that hold it: what layers keep of a sequence, on its way. */
  readonly #moved = new Map<number, readonly Float32Array[]>();

  constructor(shape: KvCacheShape, half: HalfDType) {
    const { blocks, blockSize } = shape;
    if (blockSize <= 0 || blockSize % 16 !== 0)
      throw new ShapeError('makeKvCache', 'a blockSize that is a multiple of 16', `${blockSize}`);
    this.shape = shape;
    this.half = half;
    this.layerBlockBytes = blockSize * kvRowBytes(shape);
    this.numGroups = numKvGroups(shape);
    this.#places = layerPlaces(shape);
    this.#blockNumbers = Math.max(
      ...this.#places.map(({ parts }, layer) => parts * this.#layerNumbers(headsOf(shape, layer))),
    );
    this.#rows = Array.from(
      { length: numKvRows(shape) },
      () => new Float32Array(blocks * this.#blockNumbers),
    );
    const { layers, slots, width } = shape.states ?? { layers: 0, slots: 0, width: 0 };
    this.#states = Array.from({ length: layers }, () =>
      Array.from({ length: slots }, () => new Float32Array(width)),
    );
  }

  free(): void {
    this.#rows.length = 0;
    this.#states.length = 0;
  }

  /** Of a block of a layer. */
  #layerNumbers({ kvHeads, headDim }: KvHeads): number {
    return vectorsPerToken(this.shape) * kvHeads * this.shape.blockSize * headDim;
  }

  headsOf(layer: number): KvHeads {
    return headsOf(this.shape, layer);
  }

  /** Index of the first number of a token's vector of one head. */
  #start(layer: number, block: number, kind: 'key' | 'value', head: number, offset: number): number {
    const heads = this.headsOf(layer);
    const first = block * this.#blockNumbers + this.#places[layer]!.part * this.#layerNumbers(heads);
    const kindIndex = kind === 'key' ? 0 : vectorsPerToken(this.shape) - 1;
    const vector = (kindIndex * heads.kvHeads + head) * this.shape.blockSize + offset;
    return first + vector * heads.headDim;
  }

  expectLayer(op: string, layer: number): void {
    if (layer < 0 || layer >= this.shape.layers)
      throw new ShapeError(op, `a layer below ${this.shape.layers}`, `${layer}`);
  }

  /** What a layer keeps of the sequence in a slot; of one that has none, zeros that nobody keeps. */
  stateOf(op: string, layer: number, slot: number): Float32Array {
    const { layers, width } = this.shape.states ?? { layers: 0, width: 0 };
    if (layer < 0 || layer >= layers)
      throw new ShapeError(op, `a layer with states below ${layers}`, `${layer}`);
    return slot === NO_SLOT ? new Float32Array(width) : this.#states[layer]![slot]!;
  }

  /** Puts what layers keep of the sequence in a slot into blocks, or what blocks hold into the slot. */
  moveState({ slot, isLeaving, blocks }: StateMove): void {
    const [first = 0] = blocks;
    const states = this.#states.map((slots) => slots[slot]!);
    if (isLeaving) {
      this.#moved.set(
        first,
        states.map((state) => state.slice()),
      );
    } else {
      for (const [layer, state] of (this.#moved.get(first) ?? []).entries()) states[layer]!.set(state);
    }
  }

  /** Bytes of what layers keep of a sequence, and of the blocks that are to hold it. */
  get stateBytes(): number {
    const { layers, width } = this.shape.states ?? { layers: 0, width: 0 };
    return layers * width * Float32Array.BYTES_PER_ELEMENT;
  }

  get blockBytes(): number {
    return this.#rows.length * this.layerBlockBytes;
  }

  /** The group whose block tables lead to the keys and values of a layer. */
  groupOf(layer: number): number {
    return this.#places[layer]!.group;
  }

  #numbersOf(layer: number): Float32Array {
    return this.#rows[this.#places[layer]!.row]!;
  }

  /** Stores one token's `values` [kvHeads, headDim] as the cache's format keeps them. */
  write(layer: number, kind: 'key' | 'value', slot: number, values: Float32Array): void {
    const { blockSize, dtype } = this.shape;
    const { kvHeads, headDim } = this.headsOf(layer);
    const data = this.#numbersOf(layer);
    const block = Math.floor(slot / blockSize);
    for (let head = 0; head < kvHeads; head++) {
      const start = this.#start(layer, block, kind, head, slot % blockSize);
      const kept = data.subarray(start, start + headDim);
      kept.set(values.subarray(head * headDim, (head + 1) * headDim));
      keep(kept, dtype, this.half);
    }
  }

  /** Copies the first `tokens` vectors of one head of a block to `into`. */
  read(
    at: { readonly layer: number; readonly block: number; readonly head: number },
    kind: 'key' | 'value',
    tokens: number,
    into: Float32Array,
  ): void {
    const start = this.#start(at.layer, at.block, kind, at.head, 0);
    into.set(this.#numbersOf(at.layer).subarray(start, start + tokens * this.headsOf(at.layer).headDim));
  }
}

/** Turns the key, or the value, of one head of one token into what is read of it later. */
function keep(values: Float32Array, dtype: KvDType, half: HalfDType): void {
  if (dtype === 'fp8') {
    const codes = new Uint8Array(values.length);
    packE4m3(values, codes);
    unpackE4m3(codes, values);
  } else if (dtype === 'int8') {
    const scale = quantizeRow(values, values);
    for (const [i, value] of values.entries()) values[i] = value * scale;
    roundTo(half, values);
  } else {
    roundTo(dtype, values);
  }
}
