// The paged KV memory of the reference backend.

import { ShapeError } from '../../errors.ts';
import { BYTES_PER_ELEMENT } from '../dtype.ts';
import { packBf16, unpackBf16 } from '../float-formats.ts';
import type { KvCache, KvCacheShape } from '../ops.ts';

/** A layer is one array [blocks, 2 (keys, values), kvHeads, blockSize, headDim]. */
export class RefKvCache implements KvCache {
  readonly shape: KvCacheShape;
  readonly layerBlockBytes: number;
  readonly #layers: (Float32Array | Uint16Array)[];

  constructor(shape: KvCacheShape) {
    const { layers, blocks, blockSize, kvHeads, headDim, dtype } = shape;
    if (blockSize <= 0 || blockSize % 16 !== 0)
      throw new ShapeError('makeKvCache', 'a blockSize that is a multiple of 16', `${blockSize}`);
    const numbers = 2 * kvHeads * blockSize * headDim;
    this.shape = shape;
    this.layerBlockBytes = numbers * BYTES_PER_ELEMENT[dtype];
    const Numbers = dtype === 'bf16' ? Uint16Array : Float32Array;
    this.#layers = Array.from({ length: layers }, () => new Numbers(blocks * numbers));
  }

  /** Index of the first number of a token's vector of one head. */
  #start(block: number, kind: 'key' | 'value', head: number, offset: number): number {
    const { kvHeads, blockSize, headDim } = this.shape;
    const kindIndex = kind === 'key' ? 0 : 1;
    return (((block * 2 + kindIndex) * kvHeads + head) * blockSize + offset) * headDim;
  }

  expectLayer(op: string, layer: number): void {
    if (layer < 0 || layer >= this.shape.layers)
      throw new ShapeError(op, `a layer below ${this.shape.layers}`, `${layer}`);
  }

  /** Stores one token's `values` [kvHeads, headDim], rounded to the cache's dtype. */
  write(layer: number, kind: 'key' | 'value', slot: number, values: Float32Array): void {
    const { kvHeads, blockSize, headDim } = this.shape;
    const data = this.#layers[layer]!;
    const block = Math.floor(slot / blockSize);
    for (let head = 0; head < kvHeads; head++) {
      const start = this.#start(block, kind, head, slot % blockSize);
      const from = values.subarray(head * headDim, (head + 1) * headDim);
      if (data instanceof Float32Array) data.set(from, start);
      else packBf16(from, data.subarray(start, start + headDim));
    }
  }

  /** Copies the first `tokens` vectors of one head of a block to `into`, widened to f32. */
  read(
    at: { readonly layer: number; readonly block: number; readonly head: number },
    kind: 'key' | 'value',
    tokens: number,
    into: Float32Array,
  ): void {
    const data = this.#layers[at.layer]!;
    const start = this.#start(at.block, kind, at.head, 0);
    const end = start + tokens * this.shape.headDim;
    if (data instanceof Float32Array) into.set(data.subarray(start, end));
    else unpackBf16(data.subarray(start, end), into);
  }
}
