// Drives one sequence through a loaded model, as scheduler and runner do: its blocks lie scattered over the cache, and where it
// outgrows the short contexts of the model it is computed again.

import type { PromptImage } from '../../src/images/image-processor.ts';
import type { ImageRows, Model } from '../../src/models/model.ts';
import { type KvCache, NO_SLOT, type Ops } from '../../src/ops/ops.ts';
import { ropePlacesOf } from '../../src/runner/rope-places.ts';
import { partsOf } from '../../src/runner/sequence-parts.ts';
import { rangesOf } from '../../src/util/ranges.ts';

const BLOCK_SIZE = 16;

/** Images among the tokens that are computed, from the first token of the sequence on. */
interface SeenImages extends ImageRows {
  readonly images: readonly PromptImage[];
}

export class ModelSession {
  private readonly ops: Ops;
  private readonly model: Model;
  private readonly cache: KvCache;
  private readonly blocks: Int32Array;
  private readonly tokens: number[] = [];
  private isLong = false;
  private readonly adapters: Int32Array | undefined;

  constructor(ops: Ops, model: Model, maxTokens: number, adapter?: number) {
    this.adapters = adapter === undefined ? undefined : Int32Array.of(adapter);
    const count = Math.ceil(maxTokens / BLOCK_SIZE);
    this.ops = ops;
    this.model = model;
    this.cache = ops.makeKvCache(
      model.kvCacheShape({ blocks: count + 1, blockSize: BLOCK_SIZE, sequences: 2 }),
    );
    // From the last block down: no test passes because position and slot happen to be the same number.
    this.blocks = Int32Array.from({ length: count }, (_, index) => count - index);
  }

  /** Adds `ids` to the sequence; logits of its last `wanted` tokens, [wanted, vocab]. */
  run(ids: readonly number[], wanted: number, seen?: SeenImages): Float32Array {
    return this.launch(ids, wanted, seen)();
  }

  /** The same for ranks, whose ops wait for each other: the logits are there when the result is called. */
  launch(ids: readonly number[], wanted: number, seen?: SeenImages): () => Float32Array {
    const { shortContext } = this.model;
    const start = this.tokens.length;
    this.tokens.push(...ids);
    const outgrows = shortContext !== null && !this.isLong && this.tokens.length > shortContext;
    if (outgrows) this.isLong = true;
    return this.forward(outgrows ? 0 : start, wanted, seen);
  }

  /** Computes the tokens from `start` on. */
  private forward(start: number, wanted: number, seen?: SeenImages): () => Float32Array {
    const { ops, blocks } = this;
    const ids = this.tokens.slice(start);
    const positions = Int32Array.from(ids, (_, row) => start + row);
    const places = seen && ropePlacesOf({ firstPosition: 0, numTokens: ids.length, images: seen.images });
    const first = this.isLong ? this.model.shortContext! : 0;
    const seesWholeImages = (this.model.config.vision?.wholeImageTokens ?? null) !== null;
    const images = rangesOf(seesWholeImages ? (seen?.rows ?? []) : []);
    const wholeRanges = images.map((range) => ({ first: start + range.first, end: start + range.end }));
    const parts = partsOf({ firstPosition: start, tokenIds: ids, wholeRanges });
    return ops.scope(() => {
      const hidden = this.model.forward(
        {
          tokens: { ids: Int32Array.from(ids), sampled: null },
          positions: Int32Array.from(places?.positions ?? positions, (position) => first + position),
          planePositions: places && Int32Array.of(...places.lines, ...places.columns),
          slotMapping: positions.map(
            (position) => blocks[Math.floor(position / BLOCK_SIZE)]! * BLOCK_SIZE + (position % BLOCK_SIZE),
          ),
          batch: {
            numSequences: parts.length,
            queryStarts: Int32Array.of(0, ...parts.map(({ end }) => end - start)),
            contextLengths: Int32Array.from(parts, ({ end }) => end),
            blockTables: Int32Array.from(parts.flatMap(() => [...blocks])),
            maxBlocks: blocks.length,
            ...(wholeRanges.length > 0 && {
              bidirectional: Int32Array.from(parts, ({ seesAhead }) => (seesAhead ? 1 : 0)),
            }),
          },
          adapters: this.adapters,
          imageRows: seen,
          states: {
            sources: Int32Array.of(start === 0 ? NO_SLOT : 1),
            slots: Int32Array.of(1),
            saves: new Int32Array(0),
          },
        },
        this.cache,
      );
      const rows = Int32Array.from({ length: wanted }, (_, row) => ids.length - wanted + row);
      const logits = ops.readLater(this.model.logits(hidden, rows));
      return () => logits.read();
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
