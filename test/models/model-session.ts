// Drives one sequence through a loaded model, as the runner does: its blocks lie scattered over the cache.

import type { Model } from '../../src/models/model.ts';
import type { KvCache, Ops } from '../../src/ops/ops.ts';

const BLOCK_SIZE = 16;

export class ModelSession {
  private readonly ops: Ops;
  private readonly model: Model;
  private readonly cache: KvCache;
  private readonly blocks: Int32Array;
  private readonly adapters: Int32Array | undefined;
  private context = 0;

  constructor(ops: Ops, model: Model, maxTokens: number, adapter?: number) {
    this.adapters = adapter === undefined ? undefined : Int32Array.of(adapter);
    const count = Math.ceil(maxTokens / BLOCK_SIZE);
    this.ops = ops;
    this.model = model;
    this.cache = ops.makeKvCache(model.kvCacheShape(count + 1, BLOCK_SIZE));
    // From the last block down: no test passes because position and slot happen to be the same number.
    this.blocks = Int32Array.from({ length: count }, (_, index) => count - index);
  }

  /** Adds `ids` to the sequence; logits of its last `wanted` tokens, [wanted, vocab]. */
  run(ids: readonly number[], wanted: number): Float32Array {
    const { ops, blocks } = this;
    const positions = Int32Array.from(ids, (_, row) => this.context + row);
    this.context += ids.length;
    return ops.scope(() => {
      const hidden = this.model.forward(
        {
          tokens: { ids: Int32Array.from(ids), sampled: null },
          positions,
          slotMapping: positions.map(
            (position) => blocks[Math.floor(position / BLOCK_SIZE)]! * BLOCK_SIZE + (position % BLOCK_SIZE),
          ),
          batch: {
            numSequences: 1,
            queryStarts: Int32Array.of(0, ids.length),
            contextLengths: Int32Array.of(this.context),
            blockTables: blocks,
            maxBlocks: blocks.length,
          },
          adapters: this.adapters,
        },
        this.cache,
      );
      const rows = Int32Array.from({ length: wanted }, (_, row) => ids.length - wanted + row);
      return ops.read(this.model.logits(hidden, rows));
    });
  }

  /** The most probable tokens one after another, after `ids`. */
  greedy(ids: readonly number[], count: number): number[] {
    const tokens: number[] = [];
    let next = largest(this.run(ids, 1));
    for (;;) {
      tokens.push(next);
      if (tokens.length === count) return tokens;
      next = largest(this.run([next], 1));
    }
  }
}

function largest(values: Float32Array): number {
  return values.reduce((best, value, id) => (value > values[best]! ? id : best), 0);
}
