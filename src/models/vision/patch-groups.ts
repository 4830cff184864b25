// In which order the patches of a tile are computed, and which of them see each other.

import type { ImageTile } from '../../images/image-processor.ts';
import type { StepArrays } from '../../ops/ops.ts';
import type { VisionConfig } from '../model-config.ts';

type TileSize = Pick<ImageTile, 'rows' | 'cols'>;

export interface PatchGroups {
  /** Rows before those of patches, in the first group: that of a token for the whole tile. */
  readonly numBefore: number;
  /** [patches] the patch of each row behind them, counted line by line. */
  readonly patches: Int32Array;
  /** The first row of each group, and the number of rows: rows of a group see each other. */
  readonly starts: readonly number[];
}

/** All of them, line by line. */
export function wholeTileGroup({ rows, cols }: TileSize, numBefore = 0): PatchGroups {
  const patches = Int32Array.from({ length: rows * cols }, (_, patch) => patch);
  return { numBefore, patches, starts: [0, numBefore + patches.length] };
}

export function numRowsOf({ numBefore, patches }: PatchGroups): number {
  return numBefore + patches.length;
}

/** Squares of `side` patches on each side, smaller ones at the right and below; within each and of each other line by line. */
export function windowGroups({ rows, cols }: TileSize, side: number): PatchGroups {
  const patches: number[] = [];
  const starts = [0];
  for (let top = 0; top < rows; top += side) {
    for (let left = 0; left < cols; left += side) {
      for (let row = top; row < Math.min(top + side, rows); row++) {
        for (let col = left; col < Math.min(left + side, cols); col++) patches.push(row * cols + col);
      }
      starts.push(patches.length);
    }
  }
  return { numBefore: 0, patches: Int32Array.from(patches), starts };
}

/** That `stepOfGroups` takes for a tile of so many patches at most: each window begins a block, and those at the edge are narrow. */
export function mostBlocks(
  { mergeSize, windows, hasTileToken }: Pick<VisionConfig, 'mergeSize' | 'windows' | 'hasTileToken'>,
  numPatches: number,
  blockSize: number,
): number {
  const numWindows = windows === null ? 0 : Math.ceil(numPatches / (windows.side * mergeSize)) + 1;
  return Math.ceil((numPatches + (hasTileToken ? 1 : 0)) / blockSize) + numWindows;
}

/** A step in which each group is a sequence, and each patch a token that turns by its line and its column alone; rows before them do not. */
export function stepOfGroups(
  groups: PatchGroups,
  { cols }: Pick<TileSize, 'cols'>,
  blockSize: number,
): StepArrays {
  const { numBefore, patches, starts } = groups;
  const numRows = numRowsOf(groups);
  const lengths = starts.slice(1).map((end, group) => end - starts[group]!);
  const counts = lengths.map((length) => Math.ceil(length / blockSize));
  const maxBlocks = Math.max(...counts);
  const blockTables = new Int32Array(lengths.length * maxBlocks);
  const slotMapping = new Int32Array(numRows);
  const planePositions = new Int32Array(2 * numRows);
  let nextBlock = 0;
  for (const [group, count] of counts.entries()) {
    for (let block = 0; block < count; block++) blockTables[group * maxBlocks + block] = nextBlock + block;
    for (let i = 0; i < lengths[group]!; i++) slotMapping[starts[group]! + i] = nextBlock * blockSize + i;
    nextBlock += count;
  }
  for (const [index, patch] of patches.entries()) {
    planePositions[numBefore + index] = Math.floor(patch / cols);
    planePositions[numRows + numBefore + index] = patch % cols;
  }
  return {
    positions: new Int32Array(numRows),
    planePositions,
    slotMapping,
    batch: {
      numSequences: lengths.length,
      queryStarts: Int32Array.from(starts),
      contextLengths: Int32Array.from(lengths),
      blockTables,
      maxBlocks,
    },
  };
}
