// In which order the patches of a tile are computed, and which of them see each other.

import type { ImageTile } from '../../images/image-processor.ts';
import type { StepArrays } from '../../ops/ops.ts';
import type { VisionConfig } from '../model-config.ts';

type TileSize = Pick<ImageTile, 'rows' | 'cols'>;

export interface PatchGroups {
  /** [patches] the patch of each row, counted line by line. */
  readonly patches: Int32Array;
  /** The first row of each group, and the number of rows: patches of a group see each other. */
  readonly starts: readonly number[];
}

/** All of them, line by line. */
export function wholeTileGroup({ rows, cols }: TileSize): PatchGroups {
  const patches = Int32Array.from({ length: rows * cols }, (_, patch) => patch);
  return { patches, starts: [0, patches.length] };
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
  return { patches: Int32Array.from(patches), starts };
}

/** That `stepOfGroups` takes for a tile of so many patches at most: each window begins a block, and those at the edge are narrow. */
export function mostBlocks(
  { mergeSize, windows }: Pick<VisionConfig, 'mergeSize' | 'windows'>,
  numPatches: number,
  blockSize: number,
): number {
  const numWindows = windows === null ? 0 : Math.ceil(numPatches / (windows.side * mergeSize)) + 1;
  return Math.ceil(numPatches / blockSize) + numWindows;
}

/** A step in which each group is a sequence, and each patch a token that turns by its line and its column alone. */
export function stepOfGroups(
  { patches, starts }: PatchGroups,
  { cols }: Pick<TileSize, 'cols'>,
  blockSize: number,
): StepArrays {
  const lengths = starts.slice(1).map((end, group) => end - starts[group]!);
  const counts = lengths.map((length) => Math.ceil(length / blockSize));
  const maxBlocks = Math.max(...counts);
  const blockTables = new Int32Array(lengths.length * maxBlocks);
  const slotMapping = new Int32Array(patches.length);
  const planePositions = new Int32Array(2 * patches.length);
  let nextBlock = 0;
  for (const [group, count] of counts.entries()) {
    for (let block = 0; block < count; block++) blockTables[group * maxBlocks + block] = nextBlock + block;
    for (let i = 0; i < lengths[group]!; i++) slotMapping[starts[group]! + i] = nextBlock * blockSize + i;
    nextBlock += count;
  }
  for (const [row, patch] of patches.entries()) {
    planePositions[row] = Math.floor(patch / cols);
    planePositions[patches.length + row] = patch % cols;
  }
  return {
    positions: new Int32Array(patches.length),
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
