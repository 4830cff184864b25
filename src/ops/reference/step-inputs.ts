// The arrays of one step in the reference backend: checked and copied when the step begins, so that ops need not look.

import { ShapeError } from '../../errors.ts';
import { distinctAdapters, NO_ADAPTER } from '../lora.ts';
import {
  type AttentionBatch,
  type KvCache,
  type KvCacheShape,
  NO_SLOT,
  type StepArrays,
  type StepInputs,
} from '../ops.ts';
import { RefKvCache } from './kv-cache.ts';

export class RefStepInputs implements StepInputs {
  readonly cache: RefKvCache;
  readonly positions: Int32Array;
  readonly batch: AttentionBatch;
  readonly adapters: ReadonlySet<number>;
  readonly #adapters: Int32Array | undefined;
  /** [groups, tokens] */
  readonly #slots: Int32Array;

  constructor(cache: KvCache, { positions, slotMapping, batch, adapters }: StepArrays) {
    if (!(cache instanceof RefKvCache))
      throw new ShapeError('beginStep', 'a KV cache of this backend', 'another');
    const numTokens = positions.length;
    expectIndices('slots', slotMapping, cache.shape.blocks * cache.shape.blockSize, NO_SLOT);
    const numSlots = cache.numGroups * numTokens;
    if (slotMapping.length !== numSlots)
      throw new ShapeError('beginStep', `slots [${numSlots}]`, `[${slotMapping.length}]`);
    checkBatch(batch, numTokens, cache);
    if (adapters && adapters.length !== batch.numSequences)
      throw new ShapeError('beginStep', `adapters [${batch.numSequences}]`, `[${adapters.length}]`);
    this.#adapters = adapters?.slice();
    this.adapters = distinctAdapters(adapters);
    this.cache = cache;
    this.positions = positions.slice();
    this.#slots = slotMapping.slice();
    this.batch = {
      ...batch,
      queryStarts: batch.queryStarts.slice(),
      contextLengths: batch.contextLengths.slice(),
      blockTables: batch.blockTables.slice(),
    };
  }

  get numTokens(): number {
    return this.positions.length;
  }

  /** [tokens] where the keys and values of a layer go. */
  slotsOf(layer: number): Int32Array {
    const first = this.cache.groupOf(layer) * this.numTokens;
    return this.#slots.subarray(first, first + this.numTokens);
  }

  /** The blocks of a sequence in which the keys and values of a layer are. */
  tableOf(layer: number, sequence: number): Int32Array {
    return tableAt(this.batch, this.cache.groupOf(layer), sequence);
  }

  adapterOfRow(row: number): number {
    const { queryStarts } = this.batch;
    return this.#adapters?.find((_, i) => queryStarts[i]! <= row && row < queryStarts[i + 1]!) ?? NO_ADAPTER;
  }
}

function tableAt(
  { numSequences, blockTables, maxBlocks }: AttentionBatch,
  group: number,
  sequence: number,
): Int32Array {
  const first = (group * numSequences + sequence) * maxBlocks;
  return blockTables.subarray(first, first + maxBlocks);
}

function checkBatch(batch: AttentionBatch, numTokens: number, { shape, numGroups }: RefKvCache): void {
  const { numSequences, queryStarts, contextLengths, blockTables, maxBlocks } = batch;
  if (queryStarts.length <= numSequences || queryStarts[0] !== 0 || queryStarts[numSequences] !== numTokens)
    throw new ShapeError(
      'beginStep',
      `queryStarts [${numSequences + 1}] from 0 to ${numTokens}`,
      `[${queryStarts}]`,
    );
  const numTables = numGroups * numSequences;
  if (contextLengths.length < numSequences || blockTables.length < numTables * maxBlocks) {
    const expected = `contextLengths [${numSequences}], blockTables [${numTables}, ${maxBlocks}]`;
    throw new ShapeError('beginStep', expected, `[${contextLengths.length}], [${blockTables.length}]`);
  }
  for (let i = 0; i < numSequences; i++) {
    checkSequence(batch, i, shape);
    const numBlocks = Math.ceil(contextLengths[i]! / shape.blockSize);
    for (let group = 0; group < numGroups; group++) {
      const blocks = tableAt(batch, group, i).subarray(0, numBlocks);
      expectIndices(`block ids of sequence ${i}`, blocks, shape.blocks);
    }
  }
}

function checkSequence(batch: AttentionBatch, sequence: number, shape: KvCacheShape): void {
  const { queryStarts, contextLengths, maxBlocks } = batch;
  const room = maxBlocks * shape.blockSize;
  const rows = queryStarts[sequence + 1]! - queryStarts[sequence]!;
  const context = contextLengths[sequence]!;
  if (rows < 0 || context < rows || context > room) {
    const expected = `sequence ${sequence} with 0 <= rows <= contextLength <= ${room}`;
    throw new ShapeError('beginStep', expected, `${rows} rows, contextLength ${context}`);
  }
}

function expectIndices(what: string, values: Int32Array, end: number, first = 0): void {
  for (const [row, value] of values.entries()) {
    if (value < first || value >= end)
      throw new ShapeError('beginStep', `${what} from ${first} to ${end - 1}`, `${value} in row ${row}`);
  }
}
