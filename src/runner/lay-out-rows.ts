// Lays out the rows of a pass, those of all sequences one after the other: where each token is, and where its keys and
// values go.

import { type AttentionBatch, NO_SLOT, type StepArrays } from '../ops/ops.ts';
import type { RopePlaces } from './rope-places.ts';

/** What a pass computes of one sequence. */
export interface SequenceRows {
  /** As ops take them: a negative one is a token that is being sampled. */
  readonly ids: ArrayLike<number>;
  readonly firstPosition: number;
  /** Whether it is computed as a long context, where the model has short ones. */
  readonly isLong: boolean;
  /** Left out where its tokens turn by where they stand in the sequence. */
  readonly places?: RopePlaces | undefined;
  /** [groups] Block ids in the order of its tokens. */
  readonly tables: readonly (readonly number[])[];
  /** Whether its tokens see those after them; left out, they do not. */
  readonly seesAhead?: boolean;
}

export interface LayoutOfCache {
  readonly blockSize: number;
  readonly numGroups: number;
  /** Null where all contexts are alike. */
  readonly shortContext: number | null;
}

interface LaidOutRows extends Pick<StepArrays, 'positions' | 'planePositions' | 'slotMapping'> {
  /** [tokens] */
  readonly ids: Int32Array;
  readonly batch: AttentionBatch;
}

/**
 * Sequence `i` has the rows from queryStarts[i] to queryStarts[i + 1].
 * @param batchSize sequences at least: those after `sequences` have one row each, which is computed for nobody
 */
export function layOutRows(
  sequences: readonly SequenceRows[],
  { blockSize, numGroups, shortContext }: LayoutOfCache,
  batchSize = sequences.length,
): LaidOutRows {
  const queryStarts = startsOf(sequences, batchSize);
  const numRows = queryStarts[batchSize]!;
  const maxBlocks = Math.max(1, ...sequences.flatMap(({ tables }) => tables.map(({ length }) => length)));
  const ids = new Int32Array(numRows);
  const turns = new Turns(numRows, sequences);
  const slotMapping = new Int32Array(numGroups * numRows).fill(NO_SLOT);
  const contextLengths = new Int32Array(batchSize).fill(1);
  const blockTables = new Int32Array(numGroups * batchSize * maxBlocks);
  for (const [index, sequence] of sequences.entries()) {
    const { tables, firstPosition, isLong } = sequence;
    const firstRow = queryStarts[index]!;
    const count = sequence.ids.length;
    ids.set(sequence.ids, firstRow);
    contextLengths[index] = firstPosition + count;
    turns.set(sequence, firstRow, isLong ? shortContext! : 0);
    for (const [group, blocks] of tables.entries()) {
      blockTables.set(blocks, (group * batchSize + index) * maxBlocks);
      const slots = slotMapping.subarray(group * numRows + firstRow, group * numRows + firstRow + count);
      for (let offset = 0; offset < count; offset += 1)
        slots[offset] = slotOf(firstPosition + offset, blocks, blockSize);
    }
  }
  return {
    ids,
    positions: turns.positions,
    planePositions: turns.planePositions,
    slotMapping,
    batch: {
      numSequences: batchSize,
      queryStarts,
      contextLengths,
      blockTables,
      maxBlocks,
      bidirectional: bidirectionalOf(sequences, batchSize),
    },
  };
}

/** Undefined where no token sees those after it. */
function bidirectionalOf(sequences: readonly SequenceRows[], batchSize: number): Int32Array | undefined {
  if (!sequences.some(({ seesAhead }) => seesAhead)) return undefined;
  return Int32Array.from({ length: batchSize }, (_, index) => (sequences[index]?.seesAhead ? 1 : 0));
}

/** The rows of the tables of `rope` that turn the tokens. */
class Turns {
  readonly positions: Int32Array;
  /** Undefined where no token turns by its line and its column. */
  readonly planePositions: Int32Array | undefined;

  constructor(numRows: number, sequences: readonly SequenceRows[]) {
    this.positions = new Int32Array(numRows);
    const isInPlane = sequences.some(({ places }) => places !== undefined);
    this.planePositions = isInPlane ? new Int32Array(2 * numRows) : undefined;
  }

  /** @param offset of the table of its context */
  set({ ids, firstPosition, places }: SequenceRows, firstRow: number, offset: number): void {
    const { positions, planePositions } = this;
    for (let index = 0; index < ids.length; index += 1) {
      const row = firstRow + index;
      const place = firstPosition + index;
      positions[row] = offset + (places?.positions[index] ?? place);
      if (planePositions === undefined) continue;
      planePositions[row] = offset + (places?.lines[index] ?? place);
      planePositions[positions.length + row] = offset + (places?.columns[index] ?? place);
    }
  }
}

function startsOf(sequences: readonly SequenceRows[], batchSize: number): Int32Array {
  const starts = new Int32Array(batchSize + 1);
  for (let index = 0; index < batchSize; index += 1)
    starts[index + 1] = starts[index]! + (sequences[index]?.ids.length ?? 1);
  return starts;
}

function slotOf(position: number, blocks: readonly number[], blockSize: number): number {
  return blocks[Math.floor(position / blockSize)]! * blockSize + (position % blockSize);
}
