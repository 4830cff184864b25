// The arrays of one step in the reference backend: checked and copied when the step begins, so that ops need not look.

import { ShapeError } from '../../errors.ts';
import { distinctAdapters, NO_ADAPTER } from '../lora.ts';
import {
  type AttentionBatch,
  type KvCache,
  type KvCacheShape,
  NO_SLOT,
  type StatePlace,
  type StateShape,
  type StepArrays,
  type StepInputs,
} from '../ops.ts';
import { RefKvCache } from './kv-cache.ts';

/** The rows of a sequence, and what a layer keeps of it. */
interface SequenceState {
  readonly firstRow: number;
  readonly endRow: number;
  readonly state: Float32Array;
}

export class RefStepInputs implements StepInputs {
  readonly cache: RefKvCache;
  readonly positions: Int32Array;
  readonly batch: AttentionBatch;
  readonly adapters: ReadonlySet<number>;
  readonly #adapters: Int32Array | undefined;
  /** [groups, tokens] */
  readonly #slots: Int32Array;
  readonly #stateSlots: Int32Array | undefined;

  constructor(cache: KvCache, { positions, slotMapping, batch, adapters, stateSlots }: StepArrays) {
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
    checkStateSlots(stateSlots, batch, cache.shape.states);
    this.#stateSlots = stateSlots?.slice();
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

  /**
   * The sequences of the step with so many numbers of what a layer keeps of each; of a sequence that begins they are zeros.
   * @throws ShapeError where the cache keeps no such states.
   */
  statesOf(op: string, { layer, first }: StatePlace, width: number): SequenceState[] {
    const { queryStarts } = this.batch;
    return Array.from(this.#stateSlots ?? [], (slot, sequence) => {
      const [firstRow, endRow] = [queryStarts[sequence]!, queryStarts[sequence + 1]!];
      const kept = this.cache.stateOf(op, layer, slot).subarray(first, first + width);
      if (kept.length !== width)
        throw new ShapeError(op, `a state of ${first + width} numbers`, 'a shorter one');
      if (begins(this.batch, sequence)) kept.fill(0);
      return { firstRow, endRow, state: kept };
    });
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

/** Whether nothing of a sequence was computed before. */
function begins({ queryStarts, contextLengths }: AttentionBatch, sequence: number): boolean {
  return contextLengths[sequence] === queryStarts[sequence + 1]! - queryStarts[sequence]!;
}

/** Each sequence has a slot of its own, where the cache has states at all; one without begins, since nothing was kept of it. */
function checkStateSlots(
  slots: Int32Array | undefined,
  batch: AttentionBatch,
  states: StateShape | undefined,
): void {
  if (states === undefined) return;
  if (slots?.length !== batch.numSequences)
    throw new ShapeError('beginStep', `stateSlots [${batch.numSequences}]`, `[${slots?.length ?? 0}]`);
  expectIndices('stateSlots', slots, states.slots, NO_SLOT);
  const kept = slots.filter((slot) => slot !== NO_SLOT);
  const isLost = slots.some((slot, sequence) => slot === NO_SLOT && !begins(batch, sequence));
  if (isLost || new Set(kept).size !== kept.length)
    throw new ShapeError('beginStep', 'a state slot for each sequence', 'another one');
}

function expectIndices(what: string, values: Int32Array, end: number, first = 0): void {
  for (const [row, value] of values.entries()) {
    if (value < first || value >= end)
      throw new ShapeError('beginStep', `${what} from ${first} to ${end - 1}`, `${value} in row ${row}`);
  }
}
