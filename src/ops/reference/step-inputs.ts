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
import type { StateArrays, StatePlace, StateShape } from '../states.ts';
import { RefKvCache, type StateMove } from './kv-cache.ts';

/** The rows of a sequence, and what a layer keeps of it: before the first one, and behind the last one. */
interface SequenceState {
  readonly firstRow: number;
  readonly endRow: number;
  readonly state: Float32Array;
  /** Where else it is kept, as it is before row `endRow`. */
  readonly saves: readonly { readonly endRow: number; readonly state: Float32Array }[];
}

export class RefStepInputs implements StepInputs {
  readonly cache: RefKvCache;
  readonly positions: Int32Array;
  /** [2, tokens] */
  readonly planePositions: Int32Array;
  readonly batch: AttentionBatch;
  readonly adapters: ReadonlySet<number>;
  readonly #adapters: Int32Array | undefined;
  /** [groups, tokens] */
  readonly #slots: Int32Array;
  readonly #states: StateArrays;

  constructor(cache: KvCache, arrays: StepArrays) {
    const { positions, slotMapping, batch, adapters, states } = arrays;
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
    this.#states = checkedStates(states, batch, cache.shape.states);
    for (const move of movesIn(states?.moves, cache)) cache.moveState(move);
    this.#adapters = adapters?.slice();
    this.adapters = distinctAdapters(adapters);
    this.cache = cache;
    this.positions = positions.slice();
    this.planePositions = planePositionsOf(arrays);
    this.#slots = slotMapping.slice();
    this.batch = {
      ...batch,
      queryStarts: batch.queryStarts.slice(),
      contextLengths: batch.contextLengths.slice(),
      blockTables: batch.blockTables.slice(),
      bidirectional: batch.bidirectional?.slice(),
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
    const { sources, slots, saves } = this.#states;
    const keptIn = (slot: number): Float32Array => {
      const kept = this.cache.stateOf(op, layer, slot).subarray(first, first + width);
      if (kept.length === width) return kept;
      throw new ShapeError(op, `a state of ${first + width} numbers`, 'a shorter one');
    };
    return Array.from(slots, (slot, sequence) => {
      const [firstRow, endRow] = [queryStarts[sequence]!, queryStarts[sequence + 1]!];
      const state = keptIn(slot);
      if (sources[sequence] !== slot) state.set(keptIn(sources[sequence]!));
      const own = savesIn(saves).filter((save) => save.sequence === sequence);
      return {
        firstRow,
        endRow,
        state,
        saves: own.map((save) => ({ endRow: firstRow + save.tokens, state: keptIn(save.slot) })),
      };
    });
  }

  adapterOfRow(row: number): number {
    const { queryStarts } = this.batch;
    return this.#adapters?.find((_, i) => queryStarts[i]! <= row && row < queryStarts[i + 1]!) ?? NO_ADAPTER;
  }
}

/** A copy. */
function planePositionsOf({ positions, planePositions }: StepArrays): Int32Array {
  const all = new Int32Array(2 * positions.length);
  if (planePositions && planePositions.length !== all.length)
    throw new ShapeError('beginStep', `planePositions [${all.length}]`, `[${planePositions.length}]`);
  all.set(planePositions ?? positions);
  if (planePositions === undefined) all.set(positions, positions.length);
  return all;
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
  const { numSequences, queryStarts, contextLengths, blockTables, maxBlocks, bidirectional } = batch;
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
  if (bidirectional && bidirectional.length !== numSequences)
    throw new ShapeError('beginStep', `bidirectional [${numSequences}]`, `[${bidirectional.length}]`);
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

/** One after the other. */
function savesIn(saves: Int32Array): { sequence: number; tokens: number; slot: number }[] {
  return Array.from({ length: saves.length / 3 }, (_, i) => {
    const [sequence, tokens, slot] = saves.subarray(3 * i, 3 * i + 3);
    return { sequence: sequence!, tokens: tokens!, slot: slot! };
  });
}

const NO_STATES: StateArrays = {
  sources: new Int32Array(0),
  slots: new Int32Array(0),
  saves: new Int32Array(0),
};

/** A copy; none where the cache has no states. */
function checkedStates(
  states: StateArrays | undefined,
  { numSequences, queryStarts }: AttentionBatch,
  shape: StateShape | undefined,
): StateArrays {
  if (shape === undefined) return NO_STATES;
  const { sources, slots, saves } = states ?? NO_STATES;
  if (slots.length !== numSequences || sources.length !== numSequences || saves.length % 3 !== 0) {
    const got = `[${slots.length}], [${sources.length}], [${saves.length}]`;
    throw new ShapeError('beginStep', `state slots and sources [${numSequences}], saves [any, 3]`, got);
  }
  expectIndices('state slots', slots, shape.slots, NO_SLOT);
  expectIndices('state sources', sources, shape.slots, NO_SLOT);
  const kept = savesIn(saves);
  expectIndices(
    'saved states',
    Int32Array.from(kept, ({ slot }) => slot),
    shape.slots,
  );
  for (const { sequence, tokens } of kept) {
    const rows = queryStarts[sequence + 1]! - queryStarts[sequence]!;
    if (!(tokens >= 1 && tokens <= rows))
      throw new ShapeError('beginStep', 'saves of the rows of a sequence', `${sequence}, ${tokens}`);
  }
  expectApart(sources, slots, [...slots, ...kept.map(({ slot }) => slot)]);
  return { sources: sources.slice(), slots: slots.slice(), saves: saves.slice() };
}

/** One after the other. */
function movesIn(moves: Int32Array | undefined, cache: RefKvCache): StateMove[] {
  const found: StateMove[] = [];
  for (let rest = [...(moves ?? [])]; rest.length > 0; ) {
    const [slot = -1, isLeaving, count = 0, ...after] = rest;
    const blocks = after.slice(0, count);
    expectIndices('state slots', Int32Array.of(slot), cache.shape.states?.slots ?? 0);
    expectIndices('blocks of states', Int32Array.from(blocks), cache.shape.blocks);
    if (blocks.length < count || count * cache.blockBytes < cache.stateBytes)
      throw new ShapeError('beginStep', 'moves of states into blocks with room for them', `${count} blocks`);
    found.push({ slot, isLeaving: isLeaving === 1, blocks });
    rest = after.slice(count);
  }
  return found;
}

/** No slot is written twice, or read for another sequence. */
function expectApart(sources: Int32Array, slots: Int32Array, written: readonly number[]): void {
  const taken = written.filter((slot) => slot !== NO_SLOT);
  const isShared = sources.some((source, sequence) => source !== slots[sequence] && taken.includes(source));
  if (isShared || new Set(taken).size !== taken.length)
    throw new ShapeError('beginStep', 'state slots of one sequence each', 'one of several');
}

function expectIndices(what: string, values: Int32Array, end: number, first = 0): void {
  for (const [row, value] of values.entries()) {
    if (value < first || value >= end)
      throw new ShapeError('beginStep', `${what} from ${first} to ${end - 1}`, `${value} in row ${row}`);
  }
}
