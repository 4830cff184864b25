// How patches are put into windows, and windows into blocks; and how positions are stretched over tiles.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  mostBlocks,
  stepOfGroups,
  wholeTileGroup,
  windowGroups,
} from '../../src/models/vision/patch-groups.ts';
import {
  asPixels,
  fromCornerToCorner,
  stretchedPositions,
} from '../../src/models/vision/stretched-positions.ts';

const BLOCK_SIZE = 16;

describe('windows', () => {
  it('are squares that follow each other, smaller ones at the edges', () => {
    const { patches, starts } = windowGroups({ rows: 3, cols: 5 }, 2);
    expect([...patches]).toEqual([0, 1, 5, 6, 2, 3, 7, 8, 4, 9, 10, 11, 12, 13, 14]);
    expect(starts).toEqual([0, 4, 8, 10, 12, 14, 15]);
  });

  it('have each patch once, and each its own place in blocks of no other window, of which there are enough', () => {
    const merge = fc.constantFrom(1, 2, 3);
    const tokens = fc.integer({ min: 1, max: 40 });
    fc.assert(
      fc.property(
        merge,
        tokens,
        tokens,
        fc.integer({ min: 1, max: 6 }),
        (mergeSize, down, across, ofWindow) => {
          const [rows, cols, side] = [down * mergeSize, across * mergeSize, ofWindow * mergeSize];
          const groups = windowGroups({ rows, cols }, side);
          expect([...groups.patches].sort((a, b) => a - b)).toEqual([
            ...wholeTileGroup({ rows, cols }).patches,
          ]);
          const { slotMapping, batch } = stepOfGroups(groups, { cols }, BLOCK_SIZE);
          expect(new Set(slotMapping).size).toBe(rows * cols);
          const blocksOf = (window: number) =>
            new Set(
              slotMapping
                .subarray(groups.starts[window], groups.starts[window + 1])
                .map((slot) => Math.floor(slot / BLOCK_SIZE)),
            );
          const all = Array.from({ length: batch.numSequences }, (_, window) => [...blocksOf(window)]).flat();
          expect(new Set(all).size).toBe(all.length);
          const windows = { side, wholeLayers: [] };
          expect(Math.max(...all)).toBeLessThan(
            mostBlocks({ mergeSize, windows, hasTileToken: false }, rows * cols, BLOCK_SIZE),
          );
        },
      ),
    );
  });

  it('turn by the line and the column of each patch', () => {
    const { planePositions } = stepOfGroups(windowGroups({ rows: 2, cols: 4 }, 2), { cols: 4 }, BLOCK_SIZE);
    expect([...planePositions!]).toEqual([0, 0, 1, 1, 0, 0, 1, 1, 0, 1, 0, 1, 2, 3, 2, 3]);
  });
});

describe('positions of a square of 2 x 2', () => {
  const table = Float32Array.of(0, 2, 4, 6);

  it('keep their corners where these are stretched', () => {
    const stretched = stretchedPositions(table, 2, { rows: 3, cols: 2 }, fromCornerToCorner);
    expect([...stretched]).toEqual([0, 2, 2, 4, 4, 6]);
    expect([...stretchedPositions(table, 2, { rows: 1, cols: 1 }, fromCornerToCorner)]).toEqual([0]);
  });

  it('are blended as pixels are, and averaged where there are fewer', () => {
    expect([...stretchedPositions(table, 2, { rows: 1, cols: 4 }, asPixels)]).toEqual([2, 2.5, 3.5, 4]);
    expect([...stretchedPositions(table, 2, { rows: 1, cols: 1 }, asPixels)]).toEqual([3]);
  });
});
